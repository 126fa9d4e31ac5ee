import { useLayoutEffect } from "preact/hooks";

import { useRemembered } from "./remembered";

const THEMES = ["system", "light", "dark"] as const;
const NAMES = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" } as const;

/** The choice between light and dark, which the browser keeps. */
export const ThemeChoice = () => {
  const [theme, choose] = useRemembered("theme", THEMES);
  useLayoutEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  return (
    <select
      id="theme"
      aria-label="Theme"
      value={theme}
      onChange={({ currentTarget }) => { choose(THEMES.find((each) => each === currentTarget.value) ?? "system"); }}
    >
      {THEMES.map((each) => <option value={each}>{NAMES[each]}</option>)}
    </select>
  );
};
