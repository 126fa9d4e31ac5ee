// A button that opens a file of JSON lines.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

export const FileChoice = ({ load, children }: { readonly load: (file: File) => Promise<void>; readonly children: ComponentChildren }) => {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => input.current?.click()}>{children}</button>
      <input
        ref={input}
        type="file"
        accept=".jsonl,application/jsonl"
        hidden
        onChange={({ currentTarget }) => {
          const file = currentTarget.files?.[0];
          currentTarget.value = "";
          if (file !== undefined) void load(file);
        }}
      />
    </>
  );
};
