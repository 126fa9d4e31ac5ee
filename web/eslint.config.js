import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

const unsafe = "Text of data and models becomes text nodes only: no HTML is parsed on the page.";

export default tseslint.config(
  { ignores: ["node_modules", "*.ts", "src/bundle.ts", "src/served.ts"] },
  {
    files: ["src/**/*.{ts,tsx}", "test/**/*.{ts,tsx}"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: "./tsconfig.json" } },
    plugins: { "react-hooks": hooks },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-globals": ["error", "fetch", "XMLHttpRequest", "WebSocket", "EventSource"],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: unsafe },
        { property: "outerHTML", message: unsafe },
        { property: "insertAdjacentHTML", message: unsafe },
        { object: "document", property: "write", message: unsafe },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: unsafe },
      ],
    },
  },
  {
    // The one file that talks to `medvqa view`; pages in a file talk to nothing.
    files: ["src/server.ts"],
    rules: { "no-restricted-globals": ["error", "XMLHttpRequest", "WebSocket"] },
  },
);
