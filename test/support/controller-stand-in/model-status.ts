import { timestamp } from './inference-service-status.ts'
import type { Condition, Model } from './objects.ts'

export interface ModelSettings {
  /** `--allowed-host-path-roots` of LLMKube's operator: local sources elsewhere are refused. */
  readonly allowedHostPathRoots: readonly string[]
  /** Of an http(s) source, where it could be learnt. */
  readonly sizeBytes: number | undefined
  readonly nowMs: number
}

/** LLMKube's Model controller's status of a metal Model: nothing is downloaded in the cluster. */
export function modelStatus(
  model: Model,
  { allowedHostPathRoots, sizeBytes, nowMs }: ModelSettings,
): NonNullable<Model['status']> {
  const { source } = model.spec
  const path = localPath(source)
  const isRefused = path !== undefined && !allowedHostPathRoots.some((root) => isBelow(path, root))
  const answer = isRefused
    ? {
        phase: 'Failed',
        type: 'Degraded',
        reason: 'SourceNotAllowed',
        message: `the source ${source} is not below an allowed host path root`,
      }
    : { phase: 'Ready', type: 'Available', reason: readyReason(source), message: 'the host agent fetches the model' }
  const { phase, type, reason, message } = answer
  const previous = (model.status?.conditions ?? []).find((one) => one.type === type)
  const condition: Condition = {
    type,
    status: 'True',
    reason,
    message,
    lastTransitionTime: previous?.status === 'True' ? previous.lastTransitionTime : timestamp(nowMs),
    observedGeneration: model.metadata.generation ?? 0,
  }
  const others = (model.status?.conditions ?? []).filter((one) => one.type !== 'Available' && one.type !== 'Degraded')
  return {
    ...model.status,
    phase,
    ...(isRefused ? {} : { size: isRemoteFile(source) ? sizeText(sizeBytes) : '0', acceleratorReady: true }),
    conditions: [...others, condition],
  }
}

export const isRemoteFile = (source: string): boolean => /^https?:\/\//.test(source)

function localPath(source: string): string | undefined {
  if (source.startsWith('file://')) return source.slice('file://'.length)
  return source.startsWith('/') ? source : undefined
}

const isBelow = (path: string, root: string): boolean => path === root || path.startsWith(`${root.replace(/\/$/, '')}/`)

function readyReason(source: string): string {
  if (localPath(source) !== undefined) return 'MetalAgentManaged'
  return /^(https?|s3|pvc):\/\//.test(source) ? 'WorkloadResolved' : 'RuntimeResolved'
}

function sizeText(bytes: number | undefined): string {
  if (bytes === undefined) return '0'
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(1)} GiB`
  if (bytes >= 2 ** 20) return `${(bytes / 2 ** 20).toFixed(1)} MiB`
  return bytes >= 2 ** 10 ? `${(bytes / 2 ** 10).toFixed(1)} KiB` : `${bytes} B`
}
