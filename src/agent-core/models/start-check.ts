import { ModelError, remoteRepairMs } from './errors.ts'
import { formatMismatch } from './format-check.ts'
import { contentKindOf, isKindOf, isModelKind, isSideKind, type ContentKind } from './gguf/content-kind.ts'
import { contentProblem, emptyAnswer } from './http-answer.ts'
import type { RemoteFile } from './remote-file.ts'
import { isFolderFormat, isWeightsName } from './selection.ts'
import { shownSource } from './source.ts'

/**
 * Why a file of a model that begins like this is not kept: its weights have to begin as a model of the Model's format, a projector as GGUF,
 * what else is named as weights as any model. What lies beside them may be anything but a program or a web page.
 */
export function startProblem(
  start: Uint8Array,
  file: RemoteFile,
  { isFirst, format }: { readonly isFirst: boolean; readonly format: string | undefined },
): ModelError | undefined {
  const shown = shownSource(file.url)
  if (start.length === 0) return emptyAnswer(shown)
  const problem =
    contentProblem(file.fileName, Buffer.from(start), null, shown) ?? (isFirst && formatMismatch(start, format))
  if (problem) return problem
  const kind = contentKindOf(start)
  if (mayBe(kind, file, { isFirst, format })) return undefined
  const what = isFirst ? `no model of spec.format ${format ?? 'gguf'}` : 'neither a model nor what belongs to one'
  return new ModelError(
    'transient',
    'NotAModel',
    `${shown} answered with something that is ${what}: check spec.source and spec.format.`,
    { retryAfterMs: remoteRepairMs },
  )
}

function mayBe(
  kind: ContentKind,
  { fileName, role }: RemoteFile,
  { isFirst, format }: { readonly isFirst: boolean; readonly format: string | undefined },
): boolean {
  if (role === 'mmproj') return kind === 'gguf'
  const isWeights = isWeightsName(fileName)
  if (isFirst && (isWeights || !isFolderFormat(format ?? 'gguf'))) return isKindOf(format, kind)
  return isWeights ? isModelKind(kind) : isSideKind(kind)
}
