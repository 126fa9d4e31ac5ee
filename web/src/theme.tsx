import { useEffect, useState } from "preact/hooks";

const system = (): MediaQueryList => matchMedia("(prefers-color-scheme: dark)");

/** Switches between light and dark; before a choice, the system's theme holds. */
export const ThemeButton = () => {
  const [chosen, choose] = useState<"light" | "dark" | null>(null);
  useEffect(() => {
    if (chosen !== null) document.documentElement.dataset["theme"] = chosen;
  }, [chosen]);
  const dark = (chosen ?? (system().matches ? "dark" : "light")) === "dark";
  return (
    <button id="theme" type="button" onClick={() => { choose(dark ? "light" : "dark"); }}>
      {dark ? "Light" : "Dark"}
    </button>
  );
};
