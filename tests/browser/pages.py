"""What a person does in Dagster's pages: looks, types, clicks."""

from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WAIT_SECONDS = 60
RUN_SECONDS = 600
"""Of a page; of a run that it launches, on a machine that does much else."""


def shown(browser: webdriver.Chrome, xpath: str, count: int = 1, seconds: int = WAIT_SECONDS) -> list[WebElement]:
    """The elements at ``xpath`` that can be seen, as soon as there are ``count`` of them."""

    def look(page: webdriver.Chrome) -> list[WebElement]:
        found = [each for each in page.find_elements(By.XPATH, xpath) if each.is_displayed()]
        return found if len(found) >= count else []

    wait = WebDriverWait(browser, seconds, ignored_exceptions=[StaleElementReferenceException])
    return wait.until(look, f"{count} × {xpath} at {browser.current_url}")


def node(name: str) -> str:
    """An asset in the graph; its name may be shortened, its tooltip is not."""
    return f"//*[@data-tooltip='{name}']"


def text(words: str) -> str:
    """The innermost element that says ``words``."""
    return f"//*[normalize-space()='{words}' and not(*[normalize-space()='{words}'])]"


def value_of(browser: webdriver.Chrome, name: str) -> str:
    """What is beside ``name`` in the table of metadata."""
    row = shown(browser, f"//tr[td[1][normalize-space()='{name}']]")[0]
    return row.text.removeprefix(name).strip()


def press(browser: webdriver.Chrome, words: str) -> None:
    """Click the button that says ``words``, as soon as it can be clicked."""
    xpath = f"//button[normalize-space()='{words}' and not(@disabled)]"
    shown(browser, xpath)[0].click()


def write_settings(browser: webdriver.Chrome, yaml: str) -> None:
    """Settings of a run, in the launchpad's editor instead of what is there."""
    editor = shown(browser, "//*[contains(concat(' ', @class, ' '), ' CodeMirror ')]")[0]
    shown(browser, "//pre[contains(., 'config:')]")  # the page has written the defaults by then
    browser.execute_script("arguments[0].CodeMirror.setValue(arguments[1])", editor, yaml)


def launch_backfill(browser: webdriver.Chrome, job_page: str) -> None:
    """All partitions of a job, by its button and dialog; returns when the page shows an asset as filled.

    The page draws those assets alone that are in sight.
    """
    browser.get(job_page)
    press(browser, "Materialize all…")
    press(browser, "All")
    press(browser, "Launch backfill")
    shown(browser, text("100% filled"), seconds=RUN_SECONDS)


def save(browser: webdriver.Chrome, path: Path) -> None:
    """A screenshot, instead of an earlier one."""
    path.unlink(missing_ok=True)
    assert browser.save_screenshot(str(path))
