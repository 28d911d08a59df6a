import { createHash } from 'node:crypto'
import { basename } from 'node:path/posix'
import { formatBytes } from '../../contract/format.ts'
import { type ModelChoice, ModelError, type ModelErrorReason } from './errors.ts'
import { hubAddressOf } from './hub/endpoint.ts'
import { parseModelSource, sourceDigest } from './source.ts'

/** One of the files of a split GGUF, as `llama-gguf-split` names them: `<stem>-00001-of-00003.gguf`. */
interface Shard {
  /** The path up to the number, with its folder. */
  readonly stem: string
  /** From 1. */
  readonly index: number
  readonly count: number
}

/** Far above any model there is; a name alone must not make thousands of requests. */
const maxShards = 1_000

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

/** The quantization in a name like `Llama-3.2-3B-UD-Q4_K_XL.gguf`, in capitals: `UD-Q4_K_XL`. The two folders above count where the file does not say. */
export function quantizationOf(path: string): string | undefined {
  for (const element of path.split('/').slice(-3).reverse()) {
    const found = [...element.matchAll(quantizationName)].at(-1)?.[0]
    if (found !== undefined) return found.toUpperCase()
  }
  return undefined
}

/** The names llama.cpp's quantisations have in file names, with the prefix of Unsloth's dynamic ones. */
const quantizationName =
  /(?<![a-z0-9])(?:ud-)?(?:i?q[1-8](?:_(?:k(?:_(?:xxs|xs|s|m|l|xl))?|[01]|xxs|xs|s|m|l|nl))?(?:_[48]_[48]|_[48]x[48]|_r4|_r8)?|tq[12]_0|mxfp4(?:_moe)?|nvfp4|bf16|f16|f32|fp16|fp32)(?![a-z0-9_])/gi

/** One model of a repository or folder. */
interface Group<T> {
  /** Path of the file or of the first shard. */
  readonly first: string
  readonly files: readonly T[]
  readonly sizeBytes: number
  readonly quantization: string | undefined
}

/** One per model: all shards together. Projectors and importance matrices are no models. */
function groupsOf<T extends Candidate>(files: readonly T[]): Group<T>[] {
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
function hasToken(path: string, name: string): boolean {
  for (let at = path.indexOf(name); at !== -1; at = path.indexOf(name, at + 1)) {
    const [before = '', after = ''] = [path[at - 1], path[at + name.length]]
    if (/^[-._/ ]?$/.test(before) && /^[-./ ]?$/.test(after)) return true
  }
  return false
}

/** As a sentence names them. */
const groupCandidates = (groups: readonly Group<Candidate>[]): Candidate[] =>
  groups.map(({ first, files, sizeBytes }) => ({
    path: files.length > 1 ? `${first} and ${files.length - 1} more parts` : first,
    sizeBytes,
  }))

/** Nobody reads more of a hostile repository's hundred thousand files. */
const maxChoices = 200

const choicesOf = (groups: readonly Group<Candidate>[], place: Place): ModelChoice[] =>
  groups.slice(0, maxChoices).map(({ first, files, sizeBytes, quantization }) => ({
    path: first,
    source: place.naming(first),
    sizeBytes,
    ...(quantization !== undefined && { quantization }),
    parts: files.length,
  }))

/** What the Model says about which files it means, of those that lie in one place. */
export interface Choice extends Omit<Selection, 'source'> {
  /** The file or folder that the source names; absent = everything. */
  readonly path?: string | undefined
}

export interface Selected<T extends Candidate> {
  /** Without the projector. The first is the one that a runtime is given, unless `isFolder`. */
  readonly files: readonly T[]
  readonly mmproj?: T
  /** A runtime is given the folder that holds all of them. */
  readonly isFolder: boolean
  /** What a person should know of the choice, one sentence each. */
  readonly notes: readonly string[]
  /** The models that there are to choose from, where there are several. */
  readonly choices?: readonly ModelChoice[]
}

/** A listing that is longer is no model's, nor a collection that a person would choose from. */
export const maxListedFiles = 20_000
/** The length of all names of a listing together: each is compared with several patterns. */
export const maxListedBytes = 2 * 1024 * 1024
/** How many files one model may have: some hundred parts and what belongs to them. */
const maxChosenFiles = 2_000

/** What there is to choose from: listings may be long, so each name is looked up in one table. */
interface Listing<T extends Candidate> {
  readonly all: readonly T[]
  readonly byPath: ReadonlyMap<string, T>
  readonly place: Place
}

/** Chooses a model's files. Throws ModelError: `Ambiguous` (terminal) with the candidates, `NoSuchFile`, `ShardMissing`. */
export function selectFiles<T extends Candidate>(all: readonly T[], choice: Choice, place: Place): Selected<T> {
  const listing = { all, place, byPath: new Map(all.map((file) => [file.path, file])) }
  const { mmproj: named = '' } = choice
  const mmproj = named === '' ? undefined : listing.byPath.get(named)
  if (named !== '' && mmproj === undefined) throw noSuchFile(listing, named, 'spec.mmproj')
  const selected = modelIn(listing, choice)
  const { length } = selected.files
  if (length <= maxChosenFiles) return { ...selected, ...(mmproj && { mmproj }) }
  throw ambiguity(
    `spec.source and spec.files mean ${length} files of ${place.name}, more than the ${maxChosenFiles} that a model may have: name those of one model.`,
  )
}

function modelIn<T extends Candidate>(listing: Listing<T>, choice: Choice): Omit<Selected<T>, 'mmproj'> {
  const { all, byPath, place } = listing
  const { files = [], mmproj = '', format = 'gguf', path } = choice
  const isFolder = isFolderFormat(format)
  if (files.length > 0) return { files: namedFiles(listing, files, path), isFolder, notes: [] }
  if (isFolder) return { files: folderFiles(listing, format, path), isFolder, notes: [] }
  if (path !== undefined && byPath.has(path)) return { files: wholeGroup(listing, path), isFolder, notes: [] }
  const inside = path === undefined ? all : all.filter((file) => file.path.startsWith(`${path}/`))
  if (path !== undefined && inside.length === 0) throw noSuchFile(listing, path, 'spec.source')
  if (format !== 'gguf') {
    throw ambiguity(
      `${place.name} has ${listed(all, place)}, and spec.format ${format} does not say which are needed: name them in spec.files, the one for the runtime first.`,
    )
  }
  const groups = groupsOf(inside)
  if (groups.length === 0) throw noGguf(inside, place)
  const { group, note } = groupOf(groups, choice.quantization ?? '', place)
  const projector = mmproj === '' ? all.find((file) => isProjector(file.path)) : undefined
  const ofProjector =
    projector &&
    `${place.name} also has the projector ${printable(projector.path)}: set spec.mmproj to it if the model should see images.`
  return {
    files: wholeGroup(listing, group.first),
    isFolder,
    notes: [note, ofProjector].filter((sentence) => sentence !== undefined).map(onOneLine),
    ...(groups.length > 1 && { choices: choicesOf(groups, place) }),
  }
}

/** Formats whose model is a folder with its weights, configuration and tokenizer. */
export const isFolderFormat = (format = 'gguf'): boolean => ['mlx', 'safetensors', 'pytorch'].includes(format)

interface Chosen<T> {
  readonly group: Group<T>
  /** How it was chosen, where a person should know that. */
  readonly note?: string
}

/** What llama.cpp's own `-hf` takes. */
const preferred = 'Q4_K_M'

/** The one that is meant. `wanted`: a quantization; empty = none is named. Throws `Ambiguous` and `NoSuchFile`. */
function groupOf<T extends Candidate>(groups: readonly Group<T>[], wanted: string, place: Place): Chosen<T> {
  const [only, second] = groups
  if (wanted !== '') return groupOfQuantization(groups, wanted, place)
  if (only && !second) return { group: only }
  for (const name of [preferred, `UD-${preferred}`]) {
    const [match, another] = groups.filter(({ quantization }) => quantization === name)
    if (another) break
    const note = `${place.name} has ${groups.length} quantizations and spec.quantization names none, so ${name} was taken.`
    if (match) return { group: match, note }
  }
  throw ambiguous(groups, `${place.name} has several models`, place)
}

function groupOfQuantization<T extends Candidate>(
  groups: readonly Group<T>[],
  wanted: string,
  place: Place,
): Chosen<T> {
  const name = wanted.toUpperCase()
  const containing = groups.filter(({ first }) => first.toUpperCase().includes(name))
  const ranks = [
    groups.filter(({ quantization }) => quantization === name),
    containing.filter(({ first }) => hasToken(first.toUpperCase(), name)),
    containing,
  ]
  const best = ranks.find((rank) => rank.length > 0) ?? []
  const [group, another] = best
  if (group === undefined) {
    throw repairable(
      place,
      'NoSuchFile',
      `${place.name} has no GGUF file of quantization ${wanted}: it has ${listed(groupCandidates(groups), place)}; correct spec.quantization, or name the file in spec.source, as ${place.naming(groups[0]?.first ?? 'file.gguf')}.`,
    )
  }
  if (another) throw ambiguous(best, `spec.quantization ${wanted} fits several models of ${place.name}`, place)
  const isExact = group.quantization === name || group.quantization === undefined
  return { group, ...(!isExact && { note: `spec.quantization ${wanted} was read as ${group.quantization}.` }) }
}

/** The file, and where it is a shard all of its group in order. */
function wholeGroup<T extends Candidate>({ byPath, place }: Listing<T>, path: string): readonly T[] {
  const shard = parseShard(path)
  const paths = shard === undefined ? [path] : shardPaths(path, shard)
  const missing = paths.filter((each) => !byPath.has(each))
  if (missing.length === 0) return paths.flatMap((each) => byPath.get(each) ?? [])
  throw repairable(
    place,
    'ShardMissing',
    `${basename(path)} is one of ${paths.length} parts and ${place.name} lacks ${missing.slice(0, 3).join(', ')}${missing.length > 3 ? ` and ${missing.length - 3} more` : ''}: put them there or give another source.`,
  )
}

/** Takes a group once however many of its parts are named. */
function namedFiles<T extends Candidate>(
  listing: Listing<T>,
  files: readonly string[],
  path: string | undefined,
): readonly T[] {
  const { byPath } = listing
  const isFile = path !== undefined && byPath.has(path)
  if (isFile && !files.includes(path)) {
    throw ambiguity(
      `spec.source names ${path} and spec.files does not: name the repository or folder alone in spec.source, or leave spec.files out.`,
    )
  }
  const folder = path === undefined || isFile ? '' : `${path}/`
  const chosen = new Set<T>()
  for (const file of files) {
    const found = byPath.get(folder + file) ?? byPath.get(file)
    if (found === undefined) throw noSuchFile(listing, file, 'spec.files')
    if (chosen.has(found)) continue
    for (const part of wholeGroup(listing, found.path)) chosen.add(part)
  }
  return [...chosen]
}

/** What MLX and transformers load: weights, configuration and tokenizer at the top of the folder. */
function folderFiles<T extends Candidate>(
  { all, byPath, place }: Listing<T>,
  format: string,
  path: string | undefined,
): readonly T[] {
  if (path !== undefined && byPath.has(path)) {
    throw ambiguity(
      `spec.source names the one file ${path}, but a model of spec.format ${format} is a folder: name the folder or repository, or correct spec.format.`,
    )
  }
  const prefix = path === undefined ? '' : `${path}/`
  const top = all.filter((file) => file.path.startsWith(prefix) && !file.path.slice(prefix.length).includes('/'))
  const names = top.map((file) => basename(file.path))
  const isWeights = (name: string): boolean =>
    /\.safetensors$/i.test(name) || (format === 'pytorch' && /\.(?:bin|pt|pth)$/i.test(name))
  const hasModel = names.some((name) => /^model.*\.safetensors$/i.test(name))
  if (!names.includes('config.json') || !names.some(isWeights)) {
    throw repairable(
      place,
      'NoSuchFile',
      `${place.name} has no model of spec.format ${format} (config.json and ${format === 'pytorch' ? 'weights' : '.safetensors files'}): it has ${listed(all, place)}; correct spec.source or spec.format.`,
    )
  }
  requireParts(hasModel ? names.filter((name) => /^model/i.test(name)) : names, place)
  return top.filter((file) => {
    const name = basename(file.path)
    // Mistral's repositories hold the same weights a second time under this name.
    if (hasModel && /^consolidated.*\.safetensors$/i.test(name)) return false
    if (/^readme|^license|^notice|^\./i.test(name)) return false
    return isWeights(name) || isBesideWeights(name)
  })
}

/** What lies beside the weights of a model that is a folder: its configuration, its tokenizer, its template. */
export const isBesideWeights = (path: string): boolean => /\.(?:json|model|txt|jinja|tiktoken)$/i.test(path)

/** Weights in parts, as in `model-00001-of-00002.safetensors`, of which some count from 0 and some write 163 as 000163. */
function requireParts(names: readonly string[], place: Place): void {
  const groups = new Map<string, { readonly count: number; readonly name: string; readonly found: Set<number> }>()
  for (const name of names) {
    const [, stem = '', index, count = ''] = /^(.*-)(\d{1,6})-of-(\d{1,6})\.safetensors$/is.exec(name) ?? []
    if (index === undefined) continue
    const key = `${stem}\n${count}`
    const group = groups.get(key) ?? { count: Number(count), name, found: new Set<number>() }
    group.found.add(Number(index))
    groups.set(key, group)
  }
  for (const { count, name, found } of groups.values()) {
    if (found.size >= count) continue
    throw repairable(
      place,
      'ShardMissing',
      `${printable(name)} is one of ${count} parts and ${place.name} lacks ${count - found.size} of them: put them there or give another source.`,
    )
  }
}

function ambiguous(groups: readonly Group<Candidate>[], what: string, place: Place): ModelError {
  const names = groups.map(({ quantization }) => quantization)
  const byQuantization = names.every((name) => name !== undefined) && new Set(names).size === names.length
  const advice = byQuantization
    ? `set spec.quantization, as ${names[0]}`
    : `name the one you mean in spec.source, as ${place.naming(groups[0]?.first ?? 'file.gguf')}`
  const message = `${what}: ${listed(groupCandidates(groups), place)}; ${advice}.`
  return ModelError.terminal('Ambiguous', onOneLine(message), choicesOf(groups, place))
}

function noGguf(files: readonly Candidate[], place: Place): ModelError {
  const hasSafetensors = files.some(({ path }) => /\.safetensors$/i.test(path))
  return repairable(
    place,
    'NoSuchFile',
    `${place.name} has no GGUF model: it has ${listed(files, place)}; give ${hasSafetensors ? 'a GGUF conversion of it, or set spec.format to mlx to serve it by mlx-lm' : 'another source'}.`,
  )
}

function noSuchFile({ all, place }: Listing<Candidate>, path: string, where: string): ModelError {
  return repairable(
    place,
    'NoSuchFile',
    `${place.name} has no file ${JSON.stringify(path)}, which ${where} names: it has ${listed(all, place)}.`,
  )
}

/** What files of weights are called. */
export const isWeightsName = (path: string): boolean => /\.(?:gguf|safetensors)$/i.test(path)

/** Lists files with their sizes, as many as fit a sentence; of a folder on this machine only models. */
function listed(candidates: readonly Candidate[], { isLocal }: Place): string {
  const files = isLocal
    ? candidates.filter(({ path }) => isWeightsName(path.replace(/ and \d+ more parts$/, '')))
    : candidates
  if (files.length === 0) return isLocal ? 'no model files' : 'no files'
  const shown = files
    .slice(0, maxListed)
    .map(({ path, sizeBytes }) => `${printable(path)} (${formatBytes(sizeBytes)})`)
    .join(', ')
  return files.length > maxListed ? `${shown} and ${files.length - maxListed} more` : shown
}

const maxListed = 20

const ambiguity = (message: string): ModelError => ModelError.terminal('Ambiguous', onOneLine(message))

/** A hostile name must not break the sentence into lines, nor fill it. */
function printable(path: string): string {
  return path.length > 200 ? `${path.slice(0, 200)}…` : path
}

function onOneLine(text: string): string {
  return text.replace(/\p{C}/gu, '\uFFFD')
}

/** A file that a remote place lacks today may be there tomorrow, and no event tells us. */
function repairable({ isLocal }: Place, reason: ModelErrorReason, message: string): ModelError {
  return isLocal
    ? ModelError.untilRepairedHere(reason, onOneLine(message))
    : ModelError.untilRepairedThere(reason, onOneLine(message))
}

/** What of a Model's spec says which files are meant. */
export interface Selection {
  readonly source: string
  readonly format?: string | undefined
  readonly quantization?: string | undefined
  readonly files?: readonly string[] | undefined
  readonly mmproj?: string | undefined
}

/** What of a Model's spec says which bytes are meant. */
export interface WantedModel extends Selection {
  /** What the first file must have, in hex. */
  readonly sha256?: string | undefined
}

/** Tells what is wanted apart (hex SHA-256). For a source that names one file and asks for nothing beside it, that of the source. */
export function selectionDigest({
  source,
  format = 'gguf',
  quantization = '',
  files = [],
  mmproj = '',
}: Selection): string {
  const digest = sourceDigest(source)
  // There format and quantization choose among files; elsewhere they only describe.
  const chosen = isRepository(source) ? [format === 'gguf' ? '' : format, quantization] : ['', '']
  if ([...chosen, ...files, mmproj].every((part) => part === '')) return digest
  return createHash('sha256')
    .update(JSON.stringify([digest, ...chosen, mmproj, ...files]))
    .digest('hex')
}

/** The page of one too, on whatever mirror. */
function isRepository(source: string): boolean {
  const parsed = parseModelSource(source)
  if (parsed.kind !== 'http') return parsed.kind === 'hub'
  const page = hubAddressOf(parsed.url, new URL(parsed.url).origin)
  return page !== undefined && !/\.(?:gguf|safetensors|bin|pth?)$/i.test(page.path ?? '')
}
