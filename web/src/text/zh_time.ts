// Chinese for time.

export const TIME: Readonly<Record<string, string>> = {
};
