// The page's data: plain JSON, or gzip in base64 for large runs; says in words why it cannot be read.

import type { PageData } from "./document";

/** The newest format of the page's data that these sources read. */
export const PAGE_VERSION = 1;

/** Why the page cannot show its data; `en` and `zh` are sentences for the reader. */
export class DataError extends Error {
  constructor(readonly en: string, readonly zh: string) {
    super(en);
  }
}

/** Read the data that Python put into the page. */
export async function readData(source: string): Promise<PageData> {
  const text = source.trim();
  const json = text.startsWith("gzip:") ? await unzip(text.slice(5)) : text;
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
  new DataError(
    "This file is cut off or damaged: its data cannot be read. Write the page again, or copy the whole file.",
    "此文件不完整或已损坏：无法读取其中的数据。请重新生成页面，或完整复制该文件。",
  );

/** Refuse what is not a page's data, or newer than these sources. */
export function checked(value: unknown): PageData {
  const data = value as Partial<PageData> | null;
  if (!data || typeof data !== "object" || typeof data.kind !== "string" || typeof data.version !== "number") throw damaged();
  if (data.version > PAGE_VERSION) {
    throw new DataError(
      `This page's data has version ${data.version}; the page reads up to ${PAGE_VERSION}. Write it again with the newer gpuscope.`,
      `此页面数据的版本为 ${data.version}，而页面只能读取到版本 ${PAGE_VERSION}。请用更新的 gpuscope 重新生成。`,
    );
  }
  return data as PageData;
}
