"""Readers and writers for the config files of training frameworks."""
