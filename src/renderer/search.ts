/** Whether each word of what a person wrote is somewhere in `texts`, in upper or lower case. */
export function hasWords(written: string, texts: readonly string[]): boolean {
  const all = texts.join(' ').toLowerCase()
  return written
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word))
}
