// Saving a drawing as a picture: its parts where they stand, and its texts as texts. A part of a page's script.

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "stroke-linejoin",
  "opacity", "font-size", "font-weight", "font-family", "text-anchor", "dominant-baseline", "display"];
const AROUND = 10; // pixels

function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  return made;
}

function picture(root) {
  const frame = root.getBoundingClientRect();
  const [width, height] = [frame.width + 2 * AROUND, frame.height + 2 * AROUND];
  const svg = shape("svg", { width, height, viewBox: `${-AROUND} ${-AROUND} ${width} ${height}` });
  const paper = getComputedStyle(root.closest(".card") ?? document.body).backgroundColor;
  svg.append(shape("rect", { x: -AROUND, y: -AROUND, width, height, fill: paper }), ...parts(root, frame));
  return svg;
}

function* parts(element, frame) {
  if (getComputedStyle(element).display === "none" || element.matches(".hidden-text")) return;
  if (element instanceof SVGSVGElement) {
    const box = element.getBoundingClientRect();
    const copy = drawn(element);
    const at = { x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height };
    Object.entries(at).forEach(([name, value]) => copy.setAttribute(name, value));
    yield copy;
    return;
  }
  for (const child of element.childNodes) {
    if (child instanceof Element) yield* parts(child, frame);
    else if (child.textContent.trim()) yield* lines(child, frame);
  }
}

function* lines(node, frame) {
  const style = getComputedStyle(node.parentElement);
  const range = document.createRange();
  let line = null;
  for (const word of node.textContent.matchAll(/\S+/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getBoundingClientRect();
    if (line && Math.abs(line.top - box.top) < 2) {
      line.text.textContent += ` ${word[0]}`;
      continue;
    }
    const size = parseFloat(style.fontSize);
    const given = { "font-size": size, "font-weight": style.fontWeight, "font-family": style.fontFamily, fill: style.color };
    line = { top: box.top, text: shape("text", { x: box.left - frame.left, y: (box.top + box.bottom) / 2 - frame.top + 0.35 * size, ...given }) };
    line.text.textContent = word[0];
    yield line.text;
  }
}

function drawn(original) {
  const copy = original.cloneNode(true);
  const pairs = [all("*", original), all("*", copy)];
  pairs[0].forEach((element, place) => {
    const style = getComputedStyle(element);
    if (style.display === "none") pairs[1][place].dataset.gone = "";
    for (const name of element.matches("path, circle, line, rect, text, tspan") ? DRAWN : ["opacity"]) {
      pairs[1][place].setAttribute(name, style.getPropertyValue(name));
    }
  });
  all("[data-gone], .hit", copy).forEach((element) => element.remove());
  const dropped = ["class", "role", "tabindex", "aria-checked", "aria-label", "aria-hidden", "aria-pressed", "data-e", "data-at", "data-list"];
  for (const element of [copy, ...all("*", copy)]) dropped.forEach((name) => element.removeAttribute(name));
  for (const svg of [copy, ...all("svg", copy)]) svg.setAttribute("overflow", "visible");
  return copy;
}

function asSvg(root) {
  return new Blob([new XMLSerializer().serializeToString(picture(root))], { type: "image/svg+xml" });
}

async function asPng(root) {
  const address = URL.createObjectURL(asSvg(root));
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width * 2, image.height * 2];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

for (const button of all("[data-save]")) {
  button.addEventListener("click", async () => {
    const root = one("[data-drawn]", button.closest(".card"));
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(await (button.dataset.save === "svg" ? asSvg : asPng)(root));
    anchor.download = `${data.file}.${button.dataset.save}`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
  });
}
