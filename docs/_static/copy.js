// A button that copies each block of commands or code; what they print has none.
for (const block of document.querySelectorAll("div.highlight")) {
  const pre = block.querySelector("pre");
  if (!pre || block.parentElement.matches(".highlight-text, .highlight-none, .output")) continue;
  if (block.closest(".cell_output")) continue;
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy this code");
  button.addEventListener("click", async () => {
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(pre.innerText.replace(/\n$/, ""));
    } catch {
      getSelection().selectAllChildren(pre); // a page of a file may not copy: it is left selected
      done = "Selected";
    }
    button.textContent = done;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  block.append(button);
}
