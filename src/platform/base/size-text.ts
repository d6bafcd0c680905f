// Writes a limit in bytes as text for people, so that error messages and documentation follow the constant.

export const megabytes = (bytes: number): string => `${bytes / (1024 * 1024)} MB`;
