// The arithmetic of image viewers. All lengths of frames are CSS pixels, all places in images are image pixels.

export interface Size {
  readonly width: number;
  readonly height: number;
}
export interface Point {
  readonly x: number;
  readonly y: number;
}
/** What a frame shows: CSS pixels per image pixel, and the image's point at the centre of the frame. */
export interface Sight extends Point {
  readonly scale: number;
  /** Whether the image fits the frame, and goes on to fit it when the frame changes. */
  readonly fit: boolean;
}
/** One image in its frame. `ratio`: device pixels per CSS pixel. */
export interface Framed {
  readonly image: Size;
  readonly frame: Size;
  readonly ratio: number;
}

/** The largest scale: 32 CSS pixels per image pixel. */
const LARGEST = 32;
/** Above this scale, image pixels are drawn as squares. */
export const PIXELATED = 2;
/** The factor of one step of a key or button. */
export const STEP = 1.25;

const within = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);

const fitScale = ({ image, frame }: Framed): number =>
  Math.max(Math.min(frame.width / image.width, frame.height / image.height), 1e-6);

/** The smallest and the largest scale: the whole image, native size and 1:1 are always among them. */
export const bounds = (of: Framed): readonly [number, number] => {
  const fit = fitScale(of);
  return [Math.min(fit, 1, 1 / of.ratio), Math.max(fit, LARGEST)];
};

export const fitted = (of: Framed): Sight => ({
  scale: fitScale(of),
  x: of.image.width / 2,
  y: of.image.height / 2,
  fit: true,
});

/** The nearest sight without a needless margin: an image that is smaller than its frame stands at its centre. */
export const held = (sight: Sight, of: Framed): Sight => {
  const scale = within(sight.scale, ...bounds(of));
  const centre = (place: number, image: number, frame: number): number => {
    const half = frame / (2 * scale);
    return 2 * half >= image ? image / 2 : within(place, half, image - half);
  };
  return {
    ...sight,
    scale,
    x: centre(sight.x, of.image.width, of.frame.width),
    y: centre(sight.y, of.image.height, of.frame.height),
  };
};

/** The image's point at a place of the frame. */
export const pointAt = (sight: Sight, at: Point, { frame }: Framed): Point => ({
  x: sight.x + (at.x - frame.width / 2) / sight.scale,
  y: sight.y + (at.y - frame.height / 2) / sight.scale,
});

/** Where the image stands in its frame, for CSS. */
export const placed = (sight: Sight, { image, frame }: Framed): Size & { readonly left: number; readonly top: number } => ({
  left: frame.width / 2 - sight.x * sight.scale,
  top: frame.height / 2 - sight.y * sight.scale,
  width: image.width * sight.scale,
  height: image.height * sight.scale,
});

export type Move =
  /** `at`: the place in the frame, as fractions of its width and height, that keeps its point of the image. */
  | { readonly kind: "zoom"; readonly factor: number; readonly at: Point }
  /** The image moves by this many CSS pixels. */
  | { readonly kind: "pan"; readonly dx: number; readonly dy: number }
  | { readonly kind: "scale"; readonly scale: number }
  | { readonly kind: "device" }
  | { readonly kind: "fit" };

export const CENTRE: Point = { x: 0.5, y: 0.5 };

export const moved = (sight: Sight, move: Move, of: Framed): Sight => {
  switch (move.kind) {
    case "fit":
      return fitted(of);
    case "pan":
      return held({ ...sight, x: sight.x - move.dx / sight.scale, y: sight.y - move.dy / sight.scale, fit: false }, of);
    case "scale":
      return moved(sight, { kind: "zoom", factor: move.scale / sight.scale, at: CENTRE }, of);
    case "device":
      return moved(sight, { kind: "scale", scale: 1 / of.ratio }, of);
    case "zoom": {
      const at = { x: move.at.x * of.frame.width, y: move.at.y * of.frame.height };
      const point = pointAt(sight, at, of);
      const scale = within(sight.scale * move.factor, ...bounds(of));
      const x = point.x - (at.x - of.frame.width / 2) / scale;
      const y = point.y - (at.y - of.frame.height / 2) / scale;
      return held({ scale, x, y, fit: false }, of);
    }
  }
};

/** The same sight in a frame that has changed its size. */
export const resized = (sight: Sight, of: Framed): Sight => (sight.fit ? fitted(of) : held(sight, of));

/** An image of several, with its sight; null while its size is unknown. */
export type Seen = { readonly sight: Sight; readonly of: Framed } | null;

/**
 * Move one image, and the others in step if they are linked. Others zoom by the factor by which the first one could,
 * so that none of them runs ahead at its largest scale.
 */
export const movedAll = (seen: readonly Seen[], leader: number, move: Move, linked: boolean): readonly Seen[] => {
  const first = seen[leader];
  if (first === null || first === undefined) return seen;
  const next = moved(first.sight, move, first.of);
  const same: Move = move.kind === "zoom" ? { ...move, factor: next.scale / first.sight.scale } : move;
  return seen.map((one, place) => {
    if (one === null || (place !== leader && !linked)) return one;
    return { ...one, sight: place === leader ? next : moved(one.sight, same, one.of) };
  });
};

/** The double click: a closer look at the place, or the whole image again. */
export const doubled = (sight: Sight, at: Point): Move =>
  sight.fit ? { kind: "zoom", factor: Math.max(2, 1 / sight.scale), at } : { kind: "fit" };

/** The scale in percent, as people read it: 100 % is one image pixel on one CSS pixel. */
export const shownScale = (scale: number): string => {
  const percent = 100 * scale;
  return `${percent < 10 ? percent.toFixed(1) : percent.toFixed(0)} %`;
};
