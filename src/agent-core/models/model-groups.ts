import { basename } from 'node:path/posix'
import type { ModelChoice } from './errors.ts'
import { parseShard } from './shards.ts'

/** A file that can be chosen. `path` is relative to the repository or folder. */
export interface Candidate {
  readonly path: string
  readonly sizeBytes: number
}

/** Where the files are, for the sentences. */
export interface Place {
  /** `org/repo`, or the folder's path. */
  readonly name: string
  /** How the source would name one of its files. */
  readonly naming: (path: string) => string
  readonly isLocal: boolean
}

/** A multimodal projector by its name, as llama.cpp's converters write it. */
export function isProjector(path: string): boolean {
  return /(?:^|[-_.])mmproj/i.test(basename(path))
}

/** Of a name like `Llama-3.2-3B-UD-Q4_K_XL.gguf`, in capitals: `UD-Q4_K_XL`. The folder counts where the file does not say. */
export function quantizationOf(path: string): string | undefined {
  for (const element of path.split('/').reverse()) {
    const found = [...element.matchAll(quantizationName)].at(-1)?.[0]
    if (found !== undefined) return found.toUpperCase()
  }
  return undefined
}

/** The names llama.cpp's quantisations have in file names, with the prefix of Unsloth's dynamic ones. */
const quantizationName =
  /(?<![a-z0-9])(?:ud-)?(?:i?q[1-8](?:_(?:k(?:_(?:xxs|xs|s|m|l|xl))?|[01]|xxs|xs|s|m|l|nl))?(?:_[48]_[48]|_[48]x[48]|_r4|_r8)?|tq[12]_0|mxfp4(?:_moe)?|nvfp4|bf16|f16|f32|fp16|fp32)(?![a-z0-9_])/gi

/** One model of a repository or folder. */
export interface Group<T> {
  /** Path of the file or of the first shard. */
  readonly first: string
  readonly files: readonly T[]
  readonly sizeBytes: number
  readonly quantization: string | undefined
}

/** One per model: all shards together. Projectors and importance matrices are no models. */
export function groupsOf<T extends Candidate>(files: readonly T[]): Group<T>[] {
  const groups = new Map<string, T[]>()
  for (const file of files) {
    if (!isModelGguf(file.path)) continue
    const shard = parseShard(file.path)
    const key = shard === undefined ? file.path : `${shard.stem}\n${shard.count}`
    const known = groups.get(key)
    if (known) known.push(file)
    else groups.set(key, [file])
  }
  return [...groups.values()]
    .map((members) => {
      const sorted = members.toSorted((a, b) => (a.path < b.path ? -1 : 1))
      const first = sorted[0]?.path ?? ''
      const sizeBytes = members.reduce((sum, file) => sum + file.sizeBytes, 0)
      return { first, files: sorted, sizeBytes, quantization: quantizationOf(first) }
    })
    .sort((a, b) => a.sizeBytes - b.sizeBytes || (a.first < b.first ? -1 : 1))
}

function isModelGguf(path: string): boolean {
  return /\.gguf$/i.test(path) && !isProjector(path) && !/imatrix/i.test(basename(path))
}

/** Whether `name` stands in the path between separators, so that `Q4_K` is not found in `Q4_K_M`. */
export function hasToken(path: string, name: string): boolean {
  for (let at = path.indexOf(name); at !== -1; at = path.indexOf(name, at + 1)) {
    const [before = '', after = ''] = [path[at - 1], path[at + name.length]]
    if (/^[-._/ ]?$/.test(before) && /^[-./ ]?$/.test(after)) return true
  }
  return false
}

/** As a sentence names them. */
export function groupCandidates(groups: readonly Group<Candidate>[]): Candidate[] {
  return groups.map(({ first, files, sizeBytes }) => ({
    path: files.length > 1 ? `${first} and ${files.length - 1} more parts` : first,
    sizeBytes,
  }))
}

/** Of a hostile repository's hundred thousand files nobody reads more. */
const maxChoices = 200

export const choicesOf = (groups: readonly Group<Candidate>[], place: Place): ModelChoice[] =>
  groups.slice(0, maxChoices).map(({ first, files, sizeBytes, quantization }) => ({
    path: first,
    source: place.naming(first),
    sizeBytes,
    ...(quantization !== undefined && { quantization }),
    parts: files.length,
  }))
