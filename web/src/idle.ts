// Work that nobody waits for.

/** Do a task when the browser has nothing else to do; returns the function that calls it off. */
export const whenIdle = (task: () => void): (() => void) => {
  if (!("requestIdleCallback" in window)) {
    const timer = setTimeout(task, 200);
    return () => { clearTimeout(timer); };
  }
  const asked = requestIdleCallback(task, { timeout: 2000 });
  return () => { cancelIdleCallback(asked); };
};
