import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { PlatformError, type KernelPressure, type Platform } from '../../src/agent-core/platform/platform.ts'

const gib = 1024 ** 3

/**
 * This host, but for how much memory it has in all and how short of it it is: a test that runs beside many others decides that itself.
 * What processes have is real.
 */
export class StatedMemory {
  totalBytes = 1024 * gib
  availableBytes = 1000 * gib
  kernelLevel: KernelPressure = 'normal'
  /** What the system says the GPU may hold. */
  gpuLimitBytes: number | undefined
  gpuLimitError: PlatformError | undefined
  /** The system does not tell. */
  isUnknown = false
  readonly platform: Platform

  constructor(host: Platform = hostPlatform()) {
    const stated: Partial<Platform> = {
      memory: () =>
        this.isUnknown
          ? Promise.reject(new PlatformError('The system does not tell.'))
          : Promise.resolve({ totalBytes: this.totalBytes, availableBytes: this.availableBytes }),
      memoryPressureLevel: () => Promise.resolve(this.kernelLevel),
      gpuMemoryLimit: () =>
        this.gpuLimitError ? Promise.reject(this.gpuLimitError) : Promise.resolve(this.gpuLimitBytes),
    }
    this.platform = statedPlatform(host, stated)
  }
}

/** A host that says some things otherwise. */
export const statedPlatform = (host: Platform, stated: Partial<Platform>): Platform =>
  new Proxy(host, {
    get: (target, name) => {
      const own: unknown = Reflect.get(stated, name)
      if (own !== undefined) return own
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
