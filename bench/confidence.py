"""draft"""

import sys
import time

import numpy as np
from scipy.special import ndtri

from medvqa.statistics import confidence as st


def expit(x):
    return 1 / (1 + np.exp(-x))


def draw(rng, n, design, model, runs=1):
    if design == "single":
        group = np.arange(n)
    else:
        sizes = rng.integers(1, 11, n)
        group = np.repeat(np.arange(n), sizes)[:n]
    G = group[-1] + 1
    icc = 0.3
    z = np.sqrt(icc) * rng.standard_normal(G)[group] + np.sqrt(1 - icc) * rng.standard_normal(n)
    base = np.sqrt(icc) * rng.standard_normal(G)[group] + np.sqrt(1 - icc) * rng.standard_normal(n)
    out = []
    for _ in range(runs):
        if runs > 1:
            zz = np.sqrt(0.5) * z + np.sqrt(0.5) * (
                np.sqrt(icc) * rng.standard_normal(G)[group] + np.sqrt(1 - icc) * rng.standard_normal(n)
            )
            bb = np.sqrt(0.5) * base + np.sqrt(0.5) * (
                np.sqrt(icc) * rng.standard_normal(G)[group] + np.sqrt(1 - icc) * rng.standard_normal(n)
            )
        else:
            zz, bb = z, base
        c = 0.1 + 0.9 * expit(1.2 + 1.3 * bb)
        if model == "ties":
            c = np.round(c, 1)
        p = c - 0.1 if model == "over" else c
        y = (ndtri(np.clip(p, 1e-12, 1 - 1e-12)) > zz).astype(float)
        if model == "over":
            pass
        out.append((c, y))
    return group, out


def main():
    reps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    for model in ("calibrated", "over", "ties"):
        rng = np.random.default_rng(1)
        g, [(c, y)] = draw(rng, 2_000_000, "single", model)
        truth = st.areas(c, y).mean(1)
        ce = 0.01 if model == "over" else 0.0
        print(model, "truth", truth.round(4))
        for n in (100, 500, 2000):
            for design in ("single", "clusters"):
                hit = np.zeros(5)
                miss = np.zeros(5)
                bias = np.zeros(5)
                false = np.zeros(5)
                cnt = 0
                t0 = time.time()
                R = reps if n < 2000 else reps // 2
                tot = np.zeros(5)
                for r in range(R):
                    rng = np.random.default_rng([n, r, design == "single"])
                    g, runs = draw(rng, n, design, model, 2)
                    c, y = runs[0]
                    A = [st.areas(*x) for x in runs]
                    es = [st.estimated(a, g) for a in A[0]] + [st.calibration(c, y, g)]
                    for k, (e, t) in enumerate(zip(es, [*truth, ce])):
                        if e.low is None:
                            continue
                        tot[k] += 1
                        hit[k] += e.low <= t + 1e-12 and t <= e.high
                        bias[k] += e.value - t
                        miss[k] += e.low > t + 1e-12
                    ds = [st.averaged(A[0][k] - A[1][k], g) for k in range(4)] + [st.calibration_difference(*runs, g)]
                    for k, d in enumerate(ds):
                        if d.low is None:
                            continue
                        false[k] += not d.low <= 0 <= d.high
                print(
                    f"{n:5} {design:9} G={g[-1] + 1:5}",
                    "cover",
                    (100 * hit / tot).round(1),
                    "low>",
                    (100 * miss / tot).round(1),
                    "bias",
                    (bias / tot).round(5),
                    "false",
                    (100 * false / tot).round(1),
                    f"{time.time() - t0:.1f}s",
                    tot.astype(int).min(),
                )


main()
