/** One of the files of a split GGUF, as `llama-gguf-split` names them: `<stem>-00001-of-00003.gguf`. */
export interface Shard {
  /** With its folder. */
  readonly stem: string
  /** From 1. */
  readonly index: number
  readonly count: number
}

/** Far above any model there is; a name alone must not make thousands of requests. */
export const maxShards = 1_000

/** Undefined where the name (or the path) is not a shard's, or says something that cannot be. */
export function parseShard(path: string): Shard | undefined {
  const [, stem, index, count] = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/is.exec(path) ?? []
  if (stem === undefined) return undefined
  const shard = { stem, index: Number(index), count: Number(count) }
  return shard.index >= 1 && shard.index <= shard.count && shard.count <= maxShards ? shard : undefined
}

/** The paths of all shards of the group, in order. */
export function shardPaths(path: string, { stem, count }: Shard): string[] {
  const extension = path.slice(-'.gguf'.length)
  const digits = (value: number): string => String(value).padStart(5, '0')
  return Array.from({ length: count }, (_, at) => `${stem}-${digits(at + 1)}-of-${digits(count)}${extension}`)
}
