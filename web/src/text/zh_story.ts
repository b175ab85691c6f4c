// Chinese for story.

export const STORY: Readonly<Record<string, string>> = {
};
