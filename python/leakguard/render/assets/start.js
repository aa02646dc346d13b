"use strict";

// The theme of the system until somebody chooses another; pages opened from a file may not be able to remember it.
function offerThemes() {
  const toggle = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  };
  try {
    const chosen = localStorage.getItem("leakguard-theme");
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  } catch { /* no storage here */ }
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("leakguard-theme", root.dataset.theme);
    } catch { /* no storage here */ }
    name();
  });
  dark.addEventListener("change", name);
  toggle.hidden = false;
  name();
}

// Words first: pictures wait until the page has been painted.
function drawPictures() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const timeline = document.getElementById("timeline");
  const icicle = document.getElementById("icicle");
  if (timeline) new Timeline(timeline, data);
  const sites = document.getElementById("sites");
  if (icicle) new Icicle(icicle, data);
  if (sites) new Sites(sites, data);
  document.documentElement.dataset.drawn = "yes";
  performance.mark("leakguard-drawn");
}

offerThemes();
requestAnimationFrame(() => setTimeout(drawPictures));
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
