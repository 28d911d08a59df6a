import { estimator, fitOf, fittedView, type ServingWish, sizedLook, type SizedLook } from './fit.ts'
import { sizing, type SizingSources } from './machine-queries.ts'
import { asAskedOnce, type ModelChoice, ModelError } from '../models/errors.ts'
import { GgufError } from '../models/gguf/gguf.ts'
import type { Models } from '../models/models.ts'
import type { SourceSecret } from '../models/source-secret.ts'
import type { Dialect } from '../runtimes/dialect.ts'
import { untilAborted } from '../util/until-aborted.ts'
import { sentence } from '../../contract/clean-text.ts'
import { LinkError } from '../../contract/client.ts'
import type { FileChoiceView, FitView } from '../../contract/fit.ts'
import { formatBytes } from '../../contract/format.ts'
import { sourceOfModel } from '../../contract/model-application.ts'
import { modelSource } from '../../contract/names.ts'
import type { Query } from '../../contract/queries.ts'

export interface FitSources {
  readonly sizing: SizingSources
  readonly models: Pick<Models, 'lookHere' | 'lookThere' | 'view'>
  readonly looks: ModelLooks
  readonly dialect: (executable: string) => Promise<Dialect>
  /** Reads a Secret. Throws ModelError where it cannot be read, and LinkError without a cluster. */
  readonly secretIn: (namespace: string, secret: string, source: string) => Promise<SourceSecret>
  /** Undefined: all namespaces are watched. */
  readonly watchedNamespace: () => string | undefined
}

/** Headers of many parts on a slow line take their time; a person who waits longer asks again. */
const lookLimitMs = 60_000
const maxMessageBytes = 4_000

type FitQuestion = Extract<Query, { name: 'fit' }>

/** Throws LinkError where the source cannot be looked at. */
export async function fit(sources: FitSources, question: FitQuestion, signal: AbortSignal): Promise<FitView> {
  const source = sourceOfModel(question.source)
  try {
    const look = await lookedAt(sources, { ...question, source }, signal)
    return await judged(sources, look, { ...question, source })
  } catch (error) {
    if (error instanceof ModelError && error.choices.length > 0) {
      return { kind: 'choose', message: sentence(error.message, maxMessageBytes), files: choiceViews(error.choices) }
    }
    throw asLinkError(error, source)
  }
}

async function lookedAt(
  { models, looks, secretIn, watchedNamespace }: FitSources,
  question: FitQuestion,
  signal: AbortSignal,
): Promise<SizedLook> {
  const { source, quantization, sourceSecret } = question
  const watched = watchedNamespace()
  const namespace = question.namespace ?? watched ?? 'default'
  if (watched !== undefined && namespace !== watched) {
    throw new LinkError(
      'refused',
      `This machine watches only the namespace ${watched}, so it checks no model for ${namespace}.`,
    )
  }
  const request = { source, namespace, quantization }
  const here = await models.lookHere(request)
  if (here) return sizedLook(here)
  const secret = sourceSecret === undefined ? undefined : () => secretIn(namespace, sourceSecret, source)
  const there = async (left: AbortSignal) =>
    sizedLook(await models.lookThere({ ...request, secret }, AbortSignal.any([left, AbortSignal.timeout(lookLimitMs)])))
  const look = looks.of(JSON.stringify({ ...request, sourceSecret }), there, signal)
  if (look) return look
  throw new LinkError('refused', 'Too many models are being checked already: wait for them.')
}

async function judged(sources: FitSources, look: SizedLook, question: FitQuestion): Promise<FitView> {
  const machine = await sizing(sources.sizing)
  const { llamaServer, metal } = machine
  const dialect = llamaServer === undefined ? undefined : await sources.dialect(llamaServer)
  const { contextSize, parallelSlots, cacheType } = question
  const wish: ServingWish = {
    contextTokens: contextSize,
    slots: parallelSlots,
    ...(cacheType !== undefined && { cacheTypes: [cacheType, cacheType] }),
  }
  const estimateWith = estimator({ kind: 'gguf', ...look }, wish, { metal, dialect })
  const diskProblem = look.isHere ? undefined : await diskProblemOf(sources.models, look)
  return {
    kind: 'model',
    source: question.source,
    ...(diskProblem !== undefined && { diskProblem }),
    files: choiceViews(look.choices),
    ...fittedView(look, fitOf(estimateWith, wish, machine), { estimateWith, machine }),
  }
}

async function diskProblemOf(
  models: FitSources['models'],
  { fileBytes, mmproj }: SizedLook,
): Promise<string | undefined> {
  const { freeBytes, reserveBytes, problem, directory } = await models.view()
  if (problem !== undefined) return problem
  const bytes = fileBytes + (mmproj?.fileBytes ?? 0)
  if (freeBytes === undefined || freeBytes - reserveBytes >= bytes) return undefined
  const kept = reserveBytes === 0 ? '' : `, of which ${formatBytes(reserveBytes)} stay in reserve`
  return `The download is ${formatBytes(bytes)}, but the disk of ${directory} has ${formatBytes(freeBytes)} free${kept}: delete models that nobody uses.`
}

/** The files that a Model may name. */
const choiceViews = (choices: readonly ModelChoice[]): FileChoiceView[] =>
  choices
    .filter(({ source }) => modelSource.safeParse(source).success)
    .map(({ path, ...rest }) => ({ path: sentence(path, 1_024), ...rest }))

function asLinkError(error: unknown, source: string): unknown {
  const refused = (message: string) => new LinkError('refused', sentence(message, maxMessageBytes), { cause: error })
  if (error instanceof ModelError || error instanceof GgufError || error instanceof RangeError) {
    return refused(asAskedOnce(error.message, 'ask again later'))
  }
  const isLate = error instanceof DOMException && error.name === 'TimeoutError'
  return isLate ? refused(`${source} was not read within ${lookLimitMs / 1_000} s: ask again later.`) : error
}

/** A person moves the context of one model, and compares a few. */
const maxKept = 8
/** A repository changes seldom; the fetch of an applied model looks at it again. */
const keptMs = 600_000

interface Kept {
  readonly look: Promise<SizedLook>
  readonly ending: AbortController
  isUnderWay: boolean
  /** How many queries wait for this look. */
  waiting: number
}

/** What servers said of models lately, so that the same question with another context costs no request. */
export class ModelLooks {
  readonly #kept = new Map<string, Kept>()

  /**
   * Undefined where too many are under way. Rejects as `look` does, and forgets that; with the signal's reason where it is aborted. A look
   * is aborted when its last caller has withdrawn.
   */
  of(
    key: string,
    look: (left: AbortSignal) => Promise<SizedLook>,
    signal: AbortSignal,
  ): Promise<SizedLook> | undefined {
    const kept = this.#kept.get(key) ?? this.#begin(key, look)
    return kept && this.#wait(key, kept, signal)
  }

  #begin(key: string, look: (left: AbortSignal) => Promise<SizedLook>): Kept | undefined {
    if (!this.#makeRoom()) return undefined
    const ending = new AbortController()
    const kept: Kept = { look: look(ending.signal), ending, isUnderWay: true, waiting: 0 }
    this.#kept.set(key, kept)
    kept.look.then(
      () => {
        kept.isUnderWay = false
        setTimeout(() => this.#forget(key, kept), keptMs).unref()
      },
      () => this.#forget(key, kept),
    )
    return kept
  }

  async #wait(key: string, kept: Kept, signal: AbortSignal): Promise<SizedLook> {
    kept.waiting += 1
    try {
      return await untilAborted(kept.look, signal)
    } finally {
      kept.waiting -= 1
      if (kept.waiting === 0 && kept.isUnderWay) {
        this.#forget(key, kept)
        kept.ending.abort(signal.reason)
      }
    }
  }

  #forget(key: string, kept: Kept): void {
    if (this.#kept.get(key) === kept) this.#kept.delete(key)
  }

  /** Drops the oldest finished look; false if all are still under way. */
  #makeRoom(): boolean {
    if (this.#kept.size < maxKept) return true
    for (const [key, { isUnderWay }] of this.#kept) {
      if (isUnderWay) continue
      this.#kept.delete(key)
      return true
    }
    return false
  }
}
