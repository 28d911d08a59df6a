import { fitted, sizedLook, type SizedLook } from './fit.ts'
import type { Rooms } from './command.ts'
import { sizing } from './machine-queries.ts'
import { asAskedOnce, type ModelChoice, ModelError } from '../models/errors.ts'
import { GgufError } from '../models/gguf/gguf.ts'
import { secretIn } from '../reconcile/model-request.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { launchEnvironment } from '../servers/launch.ts'
import { sentence } from '../../contract/clean-text.ts'
import { LinkError } from '../../contract/client.ts'
import type { FileChoiceView, FitView } from '../../contract/fit.ts'
import { formatBytes } from '../../contract/format.ts'
import { sourceOfModel } from '../../contract/model-application.ts'
import { modelSource } from '../../contract/names.ts'
import type { Query } from '../../contract/queries.ts'

/** Headers of many parts on a slow line take their time; a person who waits longer asks again. */
const lookLimitMs = 60_000
const maxMessageBytes = 4_000

type FitQuestion = Extract<Query, { name: 'fit' }>

/** Throws LinkError where the source cannot be looked at. */
export async function fit(rooms: Rooms, question: FitQuestion, signal: AbortSignal): Promise<FitView> {
  const source = sourceOfModel(question.source)
  try {
    const look = await lookedAt(rooms, { ...question, source }, signal)
    return await judged(rooms, look, { ...question, source })
  } catch (error) {
    if (error instanceof ModelError && error.choices.length > 0) {
      return { kind: 'choose', message: sentence(error.message, maxMessageBytes), files: choiceViews(error.choices) }
    }
    throw asLinkError(error, source)
  }
}

async function lookedAt(
  { models, looks, link, settings }: Rooms,
  question: FitQuestion,
  signal: AbortSignal,
): Promise<SizedLook> {
  const { source, quantization, sourceSecret } = question
  const watched = settings.current.namespace
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
  const secretOf = (name: string) => async () => {
    const { session } = link
    if (session) return secretIn(session.cluster.api, namespace, name, source)
    throw new LinkError('refused', `There is no cluster to read the Secret ${name} from: ${link.view().message}`)
  }
  const secret = sourceSecret === undefined ? undefined : secretOf(sourceSecret)
  const there = async (left: AbortSignal) =>
    sizedLook(await models.lookThere({ ...request, secret }, AbortSignal.any([left, AbortSignal.timeout(lookLimitMs)])))
  const look = looks.of(JSON.stringify({ ...request, sourceSecret }), there, signal)
  if (look) return look
  throw new LinkError('refused', 'Too many models are being checked already: wait for them.')
}

async function judged(rooms: Rooms, look: SizedLook, question: FitQuestion): Promise<FitView> {
  const machine = await sizing(rooms)
  const { llamaServer } = machine
  const dialectOf = (binary: string) => rooms.dialects.of(runtimes['llama-server'], binary, launchEnvironment())
  const dialect = llamaServer === undefined ? undefined : await dialectOf(llamaServer)
  const { contextSize: contextTokens, parallelSlots: slots, cacheType } = question
  const diskProblem = look.isHere ? undefined : await diskProblemOf(rooms, look)
  return {
    kind: 'model',
    source: question.source,
    ...(diskProblem !== undefined && { diskProblem }),
    files: choiceViews(look.choices),
    ...fitted({ kind: 'gguf', ...look }, { contextTokens, slots, cacheType }, { machine, dialect }),
  }
}

async function diskProblemOf({ models }: Rooms, { fileBytes, mmproj }: SizedLook): Promise<string | undefined> {
  const { freeBytes, reserveBytes, problem, directory } = await models.view()
  if (problem !== undefined) return problem
  const bytes = fileBytes + (mmproj?.fileBytes ?? 0)
  if (freeBytes === undefined || freeBytes - reserveBytes >= bytes) return undefined
  const kept = reserveBytes === 0 ? '' : `, of which ${formatBytes(reserveBytes)} stay in reserve`
  return `The download is ${formatBytes(bytes)}, but the disk of ${directory} has ${formatBytes(freeBytes)} free${kept}: delete models that no service uses.`
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
