// The page's data: plain JSON, or gzip in base64 for large runs; says in words why it cannot be read.

import type { PageData } from "./document";
import { type Texts, inLanguage, text } from "./language";

/** The newest format of the page's data that these sources read. */
export const PAGE_VERSION = 2;

/** Why the page cannot show its data: a sentence for the reader and what stands in its {names}. */
export class DataError extends Error {
  constructor(readonly text: string, readonly values: Record<string, string | number> = {}) {
    super(inLanguage("en", text, values));
  }
}

/** Translations of the page's own texts, which Python put into the page; none where it did not. */
export function readTexts(source: string): Texts {
  try {
    return JSON.parse(source) as Texts;
  } catch {
    return {};
  }
}

/** Read the data that Python put into the page. */
export async function readData(source: string): Promise<PageData> {
  const raw = source.trim();
  const json = raw.startsWith("gzip:") ? await unzip(raw.slice(5)) : raw;
  return checked(parse(json));
}

async function unzip(base64: string): Promise<string> {
  try {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return await new Response(stream).text();
  } catch {
    throw damaged();
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw damaged();
  }
}

const damaged = () =>
  new DataError(text("This file is cut off or damaged: its data cannot be read. Write the page again, or copy the whole file."));

/** Refuse what is not a page's data, or newer than these sources. */
export function checked(value: unknown): PageData {
  const data = value as Partial<PageData> | null;
  if (!data || typeof data !== "object" || typeof data.kind !== "string" || typeof data.version !== "number") throw damaged();
  if (data.version > PAGE_VERSION) {
    const versions = { version: data.version, newest: PAGE_VERSION };
    throw new DataError(text("This page's data has version {version}; the page reads up to {newest}. Write it again with the newer gpuscope."), versions);
  }
  return data as PageData;
}
