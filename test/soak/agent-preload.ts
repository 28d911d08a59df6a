// Loaded into an agent before its own code (`node --import`): its clock, its memory and its addresses are what a file says at the moment.
// It is short where a real one is patient, so that more happens in less time.
import { readFileSync } from 'node:fs'
import { comeBackTimes, evictionRules } from '../../src/agent-core/memory/eviction.ts'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { hasCode } from '../../src/agent-core/util/files.ts'
import type { Platform } from '../../src/agent-core/platform/platform.ts'
import { refreshTimes } from '../../src/agent-core/reconcile/model-fetch.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { hostAddress, surroundings, surroundingsVariable, totalMiB, type Surroundings } from './surroundings.ts'

const lookEveryMs = 100
evictionRules.share = 0
comeBackTimes.backOff.firstMs = 2_000
refreshTimes.everyMs = 10_000
const mib = 1024 ** 2

const file = process.env[surroundingsVariable] ?? ''
const RealDate = Date
const memory = new StatedMemory()
memory.totalBytes = totalMiB * mib
let current = read()
setInterval(look, lookEveryMs).unref()

globalThis.Date = class extends RealDate {
  constructor(...given: unknown[]) {
    super(...((given.length === 0 ? [now()] : given) as [number]))
  }

  static override now(): number {
    return now()
  }
} as DateConstructor

const stated: Partial<Platform> = {
  memory: () => {
    memory.availableBytes = current.availableMiB * mib
    return memory.platform.memory()
  },
  memoryPressureLevel: () => memory.platform.memoryPressureLevel(),
  gpuMemoryLimit: () => memory.platform.gpuMemoryLimit(),
  interfaces: () =>
    current.hasAddress
      ? [{ name: 'en0', address: hostAddress, family: 'IPv4', netmask: '255.255.255.0', internal: false }]
      : [],
}
Object.assign(Object.getPrototypeOf(hostPlatform()) as object, stated)

function now(): number {
  return RealDate.now() + current.clockOffsetMs
}

/** An agent that may open no file goes on in the surroundings that it had. */
function look(): void {
  try {
    current = read()
  } catch (error) {
    if (!hasCode(error, 'EMFILE')) throw error
  }
}

/** Every writer replaces it as a whole. */
function read(): Surroundings {
  return surroundings.parse(JSON.parse(readFileSync(file, 'utf8')))
}
