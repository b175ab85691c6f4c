// Chinese for tasks.

export const TASKS: Readonly<Record<string, string>> = {
};
