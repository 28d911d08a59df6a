import { sampleSnapshot } from '../../sample-snapshot.ts'
import { FakeAgent } from '../fake-agent.ts'
import { drawPower, inMemory, measuring, memory, powerRefused } from '../scene-gauges.ts'
import { gigabyte } from '../scene-services.ts'
import type { StatedScene } from './scene.ts'

export const gaugeScenes = {
  memory: {
    says: [
      '45.6 GB of 72.0 GB for models',
      '1 service waits',
      'pressure normal',
      'other 14.2 GB',
      'free for models 26.4 GB',
      'budget 72.0 GB',
      'GPU limit 77.3 GB',
    ],
    agent: () => new FakeAgent(sampleSnapshot(inMemory)),
  },
  'memory-wide': {
    says: ['pressure normal', '41.2 W', 'GPU 33.0 W · CPU 8.1 W · ANE not reported'],
    agent: () => new FakeAgent(sampleSnapshot({ ...inMemory, ...measuring })),
    width: 1_100,
    height: 760,
  },
  'memory-short': {
    says: ['pressure: critical', 'Applications that are no models hold most of it.', 'free for models 0 B'],
    agent: () =>
      new FakeAgent(
        sampleSnapshot({
          ...inMemory,
          memory: { ...memory, pressure: 'critical', problem: 'Applications that are no models hold most of it.' },
          memoryFigures: { availableBytes: 2.1 * gigabyte, freeBytes: 0 },
        }),
      ),
  },
  power: {
    says: ['CPU 8.1 W', 'ANE not reported'],
    agent: () => new FakeAgent(sampleSnapshot({ ...inMemory, ...measuring })),
    then: drawPower,
  },
  'power-off': {
    says: ['off', 'sudo does not allow it yet'],
    agent: powerRefused,
    press: ['Turn on'],
  },
} satisfies Record<string, StatedScene>
