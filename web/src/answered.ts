// The texts of a result, which are read when they are first shown.
import { useEffect, useState } from "preact/hooks";

import type { Answered } from "./bundle";
import type { Data } from "./data";

/** The texts of a result; undefined while they are being read, and without a result. */
export const useAnswered = (data: Data, r: number | undefined): Answered | undefined => {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (r === undefined || data.bundle.answers.at(r) !== undefined) return;
    let wanted = true;
    void data.bundle.answers.get(r).then(() => { if (wanted) redraw((number) => number + 1); });
    return () => { wanted = false; };
  }, [data, r]);
  return r === undefined ? undefined : data.bundle.answers.at(r);
};

/** Why there is no response to show; "" if there is one. */
export const lackOf = (data: Data, answered: Answered | undefined): string => {
  if (answered === undefined) return "Reading the response.";
  const { response, logprobs } = answered;
  if (response === null || response === undefined) return data.bundle.answers.none ? "This page holds no responses." : "No answer.";
  return response !== "" ? "" : logprobs == null ? "An empty text." : "No text: the probabilities of the options were compared.";
};
