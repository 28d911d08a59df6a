/** What a thrown value says, for a sentence. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The thrown value itself where it is an error. */
export const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
