// Light and dark: the system's choice, or the reader's, kept where that is allowed.

const listeners = new Set<() => void>();
let chosen: string | null = null;

export const isDark = (): boolean => document.documentElement.dataset.theme === "dark";

/** Call `act` when the theme changes; returns what ends that. */
export function onTheme(act: () => void): () => void {
  listeners.add(act);
  return () => listeners.delete(act);
}

export function setTheme(name: "light" | "dark", byReader = false): void {
  document.documentElement.dataset.theme = name;
  if (byReader) {
    chosen = name;
    try { localStorage.setItem("gpuscope-theme", name); } catch { /* private windows */ }
  }
  for (const act of [...listeners]) act();
}

/** Take the theme that the reader chose before, else the system's; print in light. */
export function startTheme(): void {
  const wish = matchMedia("(prefers-color-scheme: dark)");
  try { chosen = localStorage.getItem("gpuscope-theme"); } catch { /* private windows */ }
  const system = () => (wish.matches ? "dark" : "light");
  setTheme(chosen === "light" || chosen === "dark" ? chosen : system());
  wish.addEventListener("change", () => { if (!chosen) setTheme(system()); });
  let before: string | undefined;
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); });
  addEventListener("afterprint", () => { if (before === "dark") setTheme("dark"); });
}
