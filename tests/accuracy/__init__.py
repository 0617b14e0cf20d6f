"""The page of accuracies: docs/accuracy.md and its picture."""
