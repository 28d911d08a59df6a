/** What is wrong with what a person wrote, at its field. */
export const fieldWords = {
  /** Such as "must be a number"; absent where nothing more is known. */
  isWrong: (how: string | undefined) => `It ${how ?? 'cannot be that'}.`,
  nameIsTaken: 'A service of this name is there already.',
  otherNamespace: (served: string) => `This machine serves the namespace ${served} only.`,
} as const
