// Saving the timeline as a picture. A part of page.js.

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "stroke-linejoin",
  "opacity", "font-size", "font-weight", "font-family", "text-anchor", "dominant-baseline", "display"];

const BESIDE = 48; // pixels to the right of the past events: the explained link

function picture() {
  const plot = one(".plot");
  const names = one(".names");
  const wide = Math.max(...all("text", names).map((text) => text.getBBox().width), 40) + 24;
  const [width, height] = [plot.clientWidth || plot.getBoundingClientRect().width, Number(plot.getAttribute("height"))];
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const background = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const paper = getComputedStyle(one(".part-timeline") ?? document.body).backgroundColor;
  Object.entries({ width: "100%", height: "100%", fill: paper }).forEach(([name, value]) => background.setAttribute(name, value));
  const size = { width: wide + width + BESIDE, height: height + 16, viewBox: `0 -8 ${wide + width + BESIDE} ${height + 16}` };
  Object.entries(size).forEach(([name, value]) => svg.setAttribute(name, value));
  background.setAttribute("y", "-8");
  const [left, right] = [names, plot].map(drawn);
  Object.entries({ x: 0, width: wide - 12 }).forEach(([name, value]) => left.setAttribute(name, value));
  Object.entries({ x: wide, width }).forEach(([name, value]) => right.setAttribute(name, value));
  svg.append(background, left, right);
  return svg;
}

function drawn(original) {
  const copy = original.cloneNode(true);
  const pairs = [all("*", original), all("*", copy)];
  pairs[0].forEach((element, place) => {
    const style = getComputedStyle(element);
    if (style.display === "none") pairs[1][place].dataset.gone = "";
    for (const name of element.matches("path, circle, line, text, tspan") ? DRAWN : ["opacity"]) {
      pairs[1][place].setAttribute(name, style.getPropertyValue(name));
    }
  });
  all("[data-gone], .hit", copy).forEach((element) => element.remove());
  all("text", copy).forEach((text) => text.closest(".names") && text.setAttribute("text-anchor", "end"));
  for (const element of [copy, ...all("*", copy)]) {
    for (const name of ["class", "role", "tabindex", "aria-checked", "aria-label", "aria-hidden", "data-e", "data-at"]) {
      element.removeAttribute(name);
    }
  }
  for (const svg of [copy, ...all("svg", copy)]) svg.setAttribute("overflow", "visible");
  return copy;
}

function save(content, extension) {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(content);
  anchor.download = `${data.file}.${extension}`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

function saveSvg() {
  return new Blob([new XMLSerializer().serializeToString(picture())], { type: "image/svg+xml" });
}

async function savePng() {
  const address = URL.createObjectURL(saveSvg());
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

one("#save-svg")?.addEventListener("click", () => save(saveSvg(), "svg"));
one("#save-png")?.addEventListener("click", async () => save(await savePng(), "png"));
