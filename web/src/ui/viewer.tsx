// Viewers of images, side by side and in step.
import { useEffect, useRef, useState } from "preact/hooks";

import type { Picture } from "../images";
import { flat } from "../text";
import { Visible } from "./text";
import { CENTRE, doubled, fitted, movedAll, PIXELATED, placed, resized, shownScale, STEP, type Framed, type Move, type Point, type Seen, type Size } from "./zoom";

interface Light {
  readonly brightness: number;
  readonly contrast: number;
}
const PLAIN: Light = { brightness: 100, contrast: 100 };
const PAN = 40; // CSS pixels of one arrow key
const WHEEL = 0.0015; // per pixel of a wheel
const PINCH = 0.01; // per pixel of a pinch on a touchpad
const LINE = 16; // pixels of a line of a wheel

const pixels = ({ width, height }: Size): string => `${width} × ${height} pixels`;

const KEYS: Readonly<Record<string, Move>> = {
  "+": { kind: "zoom", factor: STEP, at: CENTRE },
  "=": { kind: "zoom", factor: STEP, at: CENTRE },
  "-": { kind: "zoom", factor: 1 / STEP, at: CENTRE },
  _: { kind: "zoom", factor: 1 / STEP, at: CENTRE },
  0: { kind: "fit" },
  1: { kind: "scale", scale: 1 },
  ArrowLeft: { kind: "pan", dx: PAN, dy: 0 },
  ArrowRight: { kind: "pan", dx: -PAN, dy: 0 },
  ArrowUp: { kind: "pan", dx: 0, dy: PAN },
  ArrowDown: { kind: "pan", dx: 0, dy: -PAN },
};

/** The place of an event in an element, as fractions of its width and height. */
const placeIn = (element: HTMLElement, { clientX, clientY }: { readonly clientX: number; readonly clientY: number }): Point => {
  const box = element.getBoundingClientRect();
  return { x: (clientX - box.left) / (box.width || 1), y: (clientY - box.top) / (box.height || 1) };
};

interface FrameProps {
  readonly picture: Picture;
  readonly label: string;
  readonly seen: Seen;
  readonly light: Light;
  readonly act: (move: Move) => void;
  readonly choose: () => void;
  readonly chosen: boolean;
  readonly digits: boolean;
  readonly measure: (frame: Size) => void;
  readonly loaded: (image: Size) => void;
}

const Frame = ({ picture, label, seen, light, act, choose, chosen, digits, measure, loaded }: FrameProps) => {
  const frame = useRef<HTMLDivElement>(null);
  const fingers = useRef(new Map<number, Point>());
  const measured = useRef(measure);
  measured.current = measure;
  const [broken, setBroken] = useState(false);
  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      measured.current({ width: element.clientWidth, height: element.clientHeight });
    });
    observer.observe(element);
    return () => { observer.disconnect(); };
  }, []);

  if (picture.source === null || broken) {
    return (
      <div class="missing">
        <p><strong>No image</strong></p>
        <p><Visible text={picture.name} /></p>
        <p><Visible text={broken ? picture.failed : picture.why} /></p>
      </div>
    );
  }

  const at = (event: { readonly clientX: number; readonly clientY: number }): Point =>
    frame.current === null ? CENTRE : placeIn(frame.current, event);
  const drag = (event: PointerEvent): void => {
    const before = fingers.current.get(event.pointerId);
    if (before === undefined) return;
    const now = { x: event.clientX, y: event.clientY };
    const other = [...fingers.current].find(([id]) => id !== event.pointerId)?.[1];
    fingers.current.set(event.pointerId, now);
    if (other === undefined) {
      act({ kind: "pan", dx: now.x - before.x, dy: now.y - before.y });
      return;
    }
    const apart = (one: Point): number => Math.max(Math.hypot(one.x - other.x, one.y - other.y), 1);
    const middle = { clientX: (before.x + other.x) / 2, clientY: (before.y + other.y) / 2 };
    act({ kind: "zoom", factor: apart(now) / apart(before), at: at(middle) });
    act({ kind: "pan", dx: (now.x - before.x) / 2, dy: (now.y - before.y) / 2 });
  };
  const lift = (event: PointerEvent): void => { fingers.current.delete(event.pointerId); };
  const box = seen === null ? null : placed(seen.sight, seen.of);

  return (
    <div
      ref={frame}
      class={`frame${seen !== null && !seen.sight.fit ? " near" : ""}`}
      data-chosen={chosen ? "" : undefined}
      tabIndex={0}
      role="group"
      aria-label={label}
      aria-describedby="viewer-keys"
      onFocus={choose}
      onWheel={(event) => {
        event.preventDefault();
        const turn = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1);
        const factor = Math.exp(-Math.min(Math.max(turn, -300), 300) * (event.ctrlKey ? PINCH : WHEEL));
        act({ kind: "zoom", factor, at: at(event) });
      }}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        choose();
        frame.current?.setPointerCapture(event.pointerId);
        fingers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
      }}
      onPointerMove={drag}
      onPointerUp={lift}
      onPointerCancel={lift}
      onDblClick={(event) => { if (seen !== null) act(doubled(seen.sight, at(event))); }}
      onKeyDown={(event) => {
        const move = KEYS[event.key];
        if (move === undefined || (!digits && /\d/.test(event.key)) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        event.stopPropagation();
        act(move);
      }}
    >
      <div class="light" style={{ filter: light === PLAIN ? "" : `brightness(${light.brightness}%) contrast(${light.contrast}%)` }}>
        <img
          src={picture.source}
          alt={flat(picture.name)}
          draggable={false}
          class={box === null ? "waiting" : ""}
          style={box === null || seen === null ? {} : {
            left: `${box.left}px`, top: `${box.top}px`, width: `${box.width}px`, height: `${box.height}px`,
            imageRendering: seen.sight.scale > PIXELATED ? "pixelated" : "auto",
          }}
          onLoad={(event) => {
            const { naturalWidth: width, naturalHeight: height } = event.currentTarget;
            if (width > 0 && height > 0) loaded({ width, height });
          }}
          onError={() => { setBroken(true); }}
        />
      </div>
    </div>
  );
};

const Slider = ({ name, value, set }: { readonly name: string; readonly value: number; readonly set: (value: number) => void }) => (
  <label class="slider">
    {name}
    <input type="range" min={20} max={400} step={5} value={value} onInput={(event) => { set(Number(event.currentTarget.value)); }} />
    <output>{value} %</output>
  </label>
);

interface ViewersProps {
  readonly pictures: readonly Picture[];
  /** Whether the keys 0 and 1 change the size: not on a page where they answer. */
  readonly digits?: boolean;
}

/** Viewers of the images of a question, or of both questions of a pair. Give a `key` that changes with the images. */
export const Viewers = ({ pictures, digits = true }: ViewersProps) => {
  const [images, setImages] = useState<readonly (Size | null)[]>(() => pictures.map(() => null));
  const [frames, setFrames] = useState<readonly (Size | null)[]>(() => pictures.map(() => null));
  const [seen, setSeen] = useState<readonly Seen[]>(() => pictures.map(() => null));
  const [lights, setLights] = useState<readonly Light[]>(() => pictures.map(() => PLAIN));
  const [linked, setLinked] = useState(true);
  const [chosen, setChosen] = useState(0);
  const [full, setFull] = useState(false);
  const several = pictures.length > 1;

  useEffect(() => {
    setSeen((before) =>
      images.map((image, place) => {
        const frame = frames[place];
        if (image === null || frame === null || frame === undefined || frame.width === 0) return null;
        const of: Framed = { image, frame, ratio: globalThis.devicePixelRatio || 1 };
        const one = before[place];
        return { sight: one === null || one === undefined ? fitted(of) : resized(one.sight, of), of };
      }),
    );
  }, [images, frames]);

  const put = <T,>(list: readonly T[], place: number, value: T): readonly T[] => list.map((one, i) => (i === place ? value : one));
  const act = (place: number, move: Move): void => {
    setSeen((before) => movedAll(before, place, move, linked));
  };
  const leader = seen[chosen] === null ? Math.max(seen.findIndex((one) => one !== null), 0) : chosen;
  const light = lights[leader] ?? PLAIN;
  const shine = (change: Partial<Light>): void => {
    setLights((before) => before.map((one, place) => (linked || place === leader ? { ...one, ...change } : one)));
  };
  const reset = (): void => {
    setLights((before) => before.map((one, place) => (linked || place === leader ? PLAIN : one)));
    act(leader, { kind: "fit" });
  };
  const tool = (text: string, title: string, move: Move) => (
    <button type="button" title={title} aria-label={title} onClick={() => { act(leader, move); }}>{text}</button>
  );
  if (pictures.every(({ source }) => source === null)) {
    return (
      <div class="frames">
        {pictures.map((picture, place) => (
          <Frame key={place} picture={picture} label="" seen={null} light={PLAIN} chosen={false} digits={digits}
            act={() => undefined} choose={() => undefined} measure={() => undefined} loaded={() => undefined} />
        ))}
      </div>
    );
  }
  return (
    <div
      class={`viewers${full ? " full" : ""}`}
      onKeyDown={(event) => {
        if (!full || event.key !== "Escape") return;
        event.preventDefault();
        event.stopPropagation();
        setFull(false);
      }}
    >
      <div class="tools" role="group" aria-label="Images">
        {tool("−", "Zoom out", { kind: "zoom", factor: 1 / STEP, at: CENTRE })}
        {tool("+", "Zoom in", { kind: "zoom", factor: STEP, at: CENTRE })}
        {tool("Fit", "Fit: the whole image", { kind: "fit" })}
        {tool("Native", "Native size: one image pixel on one CSS pixel", { kind: "scale", scale: 1 })}
        {tool("1:1", "1:1: one image pixel on one pixel of the screen", { kind: "device" })}
        <Slider name="Brightness" value={light.brightness} set={(brightness) => { shine({ brightness }); }} />
        <Slider name="Contrast" value={light.contrast} set={(contrast) => { shine({ contrast }); }} />
        <button type="button" onClick={reset}>Reset</button>
        {several && (
          <label class="check">
            <input type="checkbox" checked={linked} onChange={(event) => { setLinked(event.currentTarget.checked); }} /> In step
          </label>
        )}
        <button type="button" aria-pressed={full} onClick={() => { setFull(!full); }}>Full window</button>
      </div>
      <div class="frames">
        {pictures.map((picture, place) => {
          const one = seen[place] ?? null;
          const size = images[place] ?? null;
          return (
            <figure key={place}>
              <Frame
                picture={picture}
                label={`Image${several ? ` ${place + 1} of ${pictures.length}` : ""}: ${flat(picture.name)}`}
                seen={one}
                light={lights[place] ?? PLAIN}
                chosen={several && !linked && place === leader}
                digits={digits}
                act={(move) => { act(place, move); }}
                choose={() => { setChosen(place); }}
                measure={(frame) => { setFrames((before) => put(before, place, frame)); }}
                loaded={(image) => { setImages((before) => put(before, place, image)); }}
              />
              {picture.source !== null && (
                <figcaption>
                  {one !== null && <b class="scale">{shownScale(one.sight.scale)}</b>}{one !== null && picture.shrunk && " of the shrunk image"}{" "}
                  <Visible text={picture.name} />
                  {size !== null && `, ${picture.size || pixels(size)}`}
                  {(picture.shown ?? "") !== "" && <span data-shown>; <Visible text={picture.shown ?? ""} /></span>}
                </figcaption>
              )}
            </figure>
          );
        })}
      </div>
      <p id="viewer-keys" class="key">
        Wheel, pinch or + and − zoom; drag or arrow keys move; a double click looks closer{digits && "; 0 fits, 1 shows the native size"}.
        {several && !linked && " The buttons change the image with the frame."}
      </p>
    </div>
  );
};
