/** Names of all files of a split GGUF, in order, from the name of one of them; undefined where it is none. */
export function splitParts(name: string): string[] | undefined {
  const [, stem, , count, extension] = /^(.*)-(\d{5})-of-(\d{5})(\.gguf)$/i.exec(name) ?? []
  const parts = Number(count)
  if (stem === undefined || count === undefined || parts < 1) return undefined
  return Array.from({ length: parts }, (_, index) => {
    const number = String(index + 1).padStart(5, '0')
    return `${stem}-${number}-of-${count}${extension ?? ''}`
  })
}
