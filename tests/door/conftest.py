"""A browser without a window, where there is one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    words = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900")
    for word in (*words, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path)})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield found
    finally:
        found.quit()
