import { z } from 'zod'
import { runtimeAnnotation } from '../runtimes/resolution.ts'

/** Every key of ours that a person may set on an InferenceService. */
export const annotationKeys = {
  runtime: runtimeAnnotation,
  /** Minutes without a request after which the server is stopped. */
  idleMinutes: 'metalbar.dev/idle-minutes',
} as const

/** Written by ourselves. */
const ownKeys = ['metalbar.dev/replicas-before-stop']

const prefix = 'metalbar.dev/'
const longestIdleMinutes = 7 * 24 * 60

const idleMinutes = z
  .string()
  .trim()
  .regex(/^\d{1,5}$/)
  .transform(Number)
  .pipe(z.int().min(1).max(longestIdleMinutes))

export interface Annotations {
  readonly idleMinutes: number | undefined
  /** One sentence for each that does nothing as it is. */
  readonly notices: readonly string[]
}

/** What a person said on the object itself. A mistake takes effect nowhere and is told. */
export function readAnnotations(annotations: Readonly<Record<string, string>>): Annotations {
  const known: readonly string[] = [...Object.values(annotationKeys), ...ownKeys]
  const unknown = Object.keys(annotations).filter((key) => key.startsWith(prefix) && !known.includes(key))
  const given = annotations[annotationKeys.idleMinutes]
  const idle = given === undefined ? undefined : idleMinutes.safeParse(given)
  const keys = Object.values(annotationKeys).join(' and ')
  return {
    idleMinutes: idle?.data,
    notices: [
      ...unknown.map((key) => `The annotation ${key} is not known and does nothing: ${keys} are.`),
      ...(idle?.success === false
        ? [
            `The annotation ${annotationKeys.idleMinutes} says ${JSON.stringify(given)} and does nothing: it takes whole minutes from 1 to ${longestIdleMinutes}.`,
          ]
        : []),
    ],
  }
}
