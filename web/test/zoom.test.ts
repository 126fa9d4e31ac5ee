import fc from "fast-check";
import { expect, test } from "vitest";

import * as zoom from "../src/ui/zoom";

const length = (max: number) => fc.integer({ min: 1, max });
const size = (max: number): fc.Arbitrary<zoom.Size> => fc.record({ width: length(max), height: length(max) });
const framed: fc.Arbitrary<zoom.Framed> = fc.record({
  image: size(5000),
  frame: size(2000),
  ratio: fc.constantFrom(1, 1.5, 2, 3),
});
const fraction = fc.double({ min: 0, max: 1, noNaN: true });
const place = fc.record({ x: fraction, y: fraction });
const shift = fc.double({ min: -3000, max: 3000, noNaN: true });
const move: fc.Arbitrary<zoom.Move> = fc.oneof(
  fc.record({ kind: fc.constant("zoom" as const), factor: fc.double({ min: 0.05, max: 20, noNaN: true }), at: place }),
  fc.record({ kind: fc.constant("pan" as const), dx: shift, dy: shift }),
  fc.record({ kind: fc.constant("scale" as const), scale: fc.double({ min: 0.01, max: 64, noNaN: true }) }),
  fc.record({ kind: fc.constant("device" as const) }),
  fc.record({ kind: fc.constant("fit" as const) }),
);
const moves = fc.array(move, { maxLength: 12 });
const after = (steps: readonly zoom.Move[], of: zoom.Framed): zoom.Sight =>
  steps.reduce((sight, step) => zoom.moved(sight, step, of), zoom.fitted(of));
const near = (one: number, other: number, by = 1e-6): boolean => Math.abs(one - other) <= by * Math.max(1, Math.abs(one), Math.abs(other));

test("no margin stands beside an image that is larger than its frame, and a smaller one is centred", () => {
  fc.assert(
    fc.property(framed, moves, (of, steps) => {
      const sight = after(steps, of);
      const { left, top, width, height } = zoom.placed(sight, of);
      for (const [start, length, frame] of [[left, width, of.frame.width], [top, height, of.frame.height]] as const) {
        if (length <= frame) expect(near(start, (frame - length) / 2)).toBe(true);
        else {
          expect(start).toBeLessThanOrEqual(1e-6 * length);
          expect(start + length).toBeGreaterThanOrEqual(frame - 1e-6 * length);
        }
      }
    }),
  );
});

test("the scale stays within its bounds, and holding a sight twice changes nothing", () => {
  fc.assert(
    fc.property(framed, moves, (of, steps) => {
      const sight = after(steps, of);
      const [low, high] = zoom.bounds(of);
      expect(sight.scale).toBeGreaterThanOrEqual(low);
      expect(sight.scale).toBeLessThanOrEqual(high);
      const again = zoom.held(sight, of);
      expect([again.x, again.y, again.scale].every((value, i) => near(value, [sight.x, sight.y, sight.scale][i] ?? NaN))).toBe(true);
    }),
  );
});

test("zooming keeps the point under the pointer, unless an edge of the image stops it", () => {
  fc.assert(
    fc.property(framed, moves, place, fc.double({ min: 0.2, max: 5, noNaN: true }), (of, steps, at, factor) => {
      const before = after(steps, of);
      const next = zoom.moved(before, { kind: "zoom", factor, at }, of);
      const here = { x: at.x * of.frame.width, y: at.y * of.frame.height };
      const [was, is] = [zoom.pointAt(before, here, of), zoom.pointAt(next, here, of)];
      // The centre that keeps the point, before edges are looked at.
      const free = {
        x: was.x - (here.x - of.frame.width / 2) / next.scale,
        y: was.y - (here.y - of.frame.height / 2) / next.scale,
      };
      // Both differences are the same number, each rounded in its own way.
      if (near(free.x, next.x)) expect(near(was.x, is.x, 1e-5)).toBe(true);
      if (near(free.y, next.y)) expect(near(was.y, is.y, 1e-5)).toBe(true);
      const loose = zoom.held({ ...next, ...free }, of);
      expect(near(loose.x, next.x) && near(loose.y, next.y)).toBe(true);
    }),
  );
});

test("native size and 1:1 are exact in every frame", () => {
  fc.assert(
    fc.property(framed, moves, (of, steps) => {
      const sight = after(steps, of);
      expect(near(zoom.moved(sight, { kind: "scale", scale: 1 }, of).scale, 1)).toBe(true);
      expect(near(zoom.moved(sight, { kind: "device" }, of).scale * of.ratio, 1)).toBe(true);
    }),
  );
});

test("a fitted image touches its frame, lies within it, and goes on to do so when the frame changes", () => {
  fc.assert(
    fc.property(framed, size(2000), (of, frame) => {
      const changed = { ...of, frame };
      const sight = zoom.resized(zoom.fitted(of), changed);
      const { width, height } = zoom.placed(sight, changed);
      expect(width <= frame.width * (1 + 1e-9) && height <= frame.height * (1 + 1e-9)).toBe(true);
      expect(near(width, frame.width) || near(height, frame.height)).toBe(true);
      expect(zoom.resized({ ...sight, scale: 1, fit: false }, of).scale).toBe(1);
    }),
  );
});

test("linked images of one size stay in step, and unlinked ones stay as they are", () => {
  fc.assert(
    fc.property(framed, fc.array(fc.tuple(fc.nat(2), move), { maxLength: 12 }), (of, steps) => {
      const one = { sight: zoom.fitted(of), of };
      let seen: readonly zoom.Seen[] = [one, one, null];
      for (const [leader, step] of steps) seen = zoom.movedAll(seen, leader, step, true);
      expect(seen[2]).toBeNull();
      const [first, second] = [seen[0]?.sight, seen[1]?.sight];
      if (first === undefined || second === undefined) throw new Error("an image was lost");
      expect(near(first.scale, second.scale) && near(first.x, second.x) && near(first.y, second.y)).toBe(true);
      const alone = zoom.movedAll([one, one], 0, { kind: "scale", scale: 1 }, false);
      expect(alone[1]).toBe(one);
    }),
  );
});

test("linked images of other sizes zoom by the same factor", () => {
  fc.assert(
    fc.property(size(3000), size(3000), size(1500), fc.double({ min: 1, max: 3, noNaN: true }), place, (a, b, frame, factor, at) => {
      const seen = [a, b].map((image) => {
        const of = { image, frame, ratio: 1 };
        return { sight: zoom.fitted(of), of };
      });
      const next = zoom.movedAll(seen, 0, { kind: "zoom", factor, at }, true);
      const grown = next.map((one, i) => (one?.sight.scale ?? NaN) / (seen[i]?.sight.scale ?? NaN));
      const [, high] = zoom.bounds(seen[1]?.of ?? { image: b, frame, ratio: 1 });
      const stopped = near(next[1]?.sight.scale ?? NaN, high);
      expect(stopped || near(grown[0] ?? NaN, grown[1] ?? NaN)).toBe(true);
    }),
  );
});

test("a double click looks closer, and the next one shows the whole image", () => {
  fc.assert(
    fc.property(framed, place, (of, at) => {
      const closer = zoom.moved(zoom.fitted(of), zoom.doubled(zoom.fitted(of), at), of);
      expect(closer.fit).toBe(false);
      expect(zoom.moved(closer, zoom.doubled(closer, at), of)).toEqual(zoom.fitted(of));
    }),
  );
});

test("the scale is shown in percent", () => {
  expect([0.0512, 0.5, 1, 2.004].map(zoom.shownScale)).toEqual(["5.1 %", "50 %", "100 %", "200 %"]);
});
