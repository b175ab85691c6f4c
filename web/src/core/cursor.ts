// The play head: one moment of the whole page. Every view that shows a moment shows this one.

/** The moment that is looked at, in nanoseconds on the timeline's clock; null: the step as a whole. */
export class Cursor {
  private readonly listeners = new Set<(at: number | null) => void>();
  at: number | null = null;
  /** Whether it moves by itself. */
  playing = false;

  /** @param low first moment that can be looked at. @param high last one. */
  constructor(readonly low: number, readonly high: number) {}

  /** Call `act` now and whenever the moment changes. */
  on(act: (at: number | null) => void): void {
    this.listeners.add(act);
    act(this.at);
  }

  /** As `on`, for what stands in the page: ends when the element has left it. */
  onWhile(element: Element, act: (at: number | null) => void): void {
    let stood = false;
    const listen = (at: number | null) => {
      stood ||= element.isConnected;
      if (stood && !element.isConnected) this.listeners.delete(listen);
      else act(at);
    };
    this.on(listen);
  }

  /** As `onWhile`, but only while the element is in the window; what was missed is made up for then. */
  onSeen(element: Element, act: (at: number | null) => void): void {
    let seen = typeof IntersectionObserver === "undefined", done: number | null = this.at;
    const look = () => { if (seen && done !== this.at) act((done = this.at)); };
    if (!seen) new IntersectionObserver((entries) => { seen = entries.at(-1)?.isIntersecting ?? false; look(); }).observe(element);
    this.onWhile(element, look);
  }

  /** Look at a moment, as far as there is one; null: at the whole step. */
  set(at: number | null): void {
    const next = at === null ? null : Math.min(this.high, Math.max(this.low, at));
    if (next === this.at) return;
    this.at = next;
    for (const act of [...this.listeners]) act(next);
  }

  /** Stop, and forget who listens: the page is drawn anew. */
  end(): void {
    this.playing = false;
    this.listeners.clear();
  }
}
