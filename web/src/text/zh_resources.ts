// Chinese for resources.

export const RESOURCES: Readonly<Record<string, string>> = {
};
