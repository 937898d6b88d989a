// Canvases with as many pixels as the screen has.

export function prepare(canvas: HTMLCanvasElement): { context: CanvasRenderingContext2D; width: number; height: number } | null {
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const context = canvas.getContext('2d');
  if (!context || width === 0 || height === 0) return null;
  const ratio = Math.min(3, devicePixelRatio || 1);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
  return { context, width, height };
}

/** Calls `change` when the size of an element changes. */
export function onResize(element: Element, change: () => void): () => void {
  const observer = new ResizeObserver(change);
  observer.observe(element);
  return () => observer.disconnect();
}
