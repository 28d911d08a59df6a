import { withHistory, withModels } from '../scene-agents.ts'
import { energyOff, noEnergyYet, tokensOnly, weekOfEnergy } from '../scene-energy.ts'
import type { StatedScene } from './scene.ts'

export const viewScenes = {
  models: {
    says: [
      'phi-4-mini-q4',
      '8.2 GB',
      'Used by default/phi-4-mini.',
      'Last used 1 h ago.',
      'No service uses it.',
      '3 models, 9.6 GB · 412 GB free',
      'Fetch a model',
      '2 min left',
      'architecture not reported',
    ],
    agent: withModels,
    view: 'models',
    height: 980,
  },
  'models-delete': {
    says: ['Delete 400 MB from the disk?', 'Yes, delete it', 'This deletes 2 models, 1.4 GB:', 'Delete 2 models'],
    agent: withModels,
    view: 'models',
    press: ['Delete smollm-360m', 'Delete unused models…'],
    height: 980,
  },
  activity: {
    says: [
      'Crashed',
      'Process 4711.',
      'Settings changed',
      'Only problems',
      'Show more',
      'Friday 2 January',
      'Bring back',
      'Back to 30s',
    ],
    agent: withHistory,
    view: 'activity',
    height: 980,
  },
  'activity-answered': {
    says: ['default/deepseek-r1-8b may be served by this machine again.'],
    agent: withHistory,
    view: 'activity',
    press: ['Bring back'],
    then: (agent) =>
      agent.answer({ outcome: 'done', message: 'default/deepseek-r1-8b may be served by this machine again.' }),
    height: 980,
  },
  energy: {
    says: [
      '2.08 kWh · 0.75 EUR',
      'Measured for',
      'about 932 Wh · 0.34 EUR',
      'J per generated token',
      'While no service worked',
      'rest of this Mac',
      'is an estimate from its tokens',
      'As a table',
    ],
    agent: weekOfEnergy,
    view: 'activity',
    height: 980,
  },
  'energy-service': {
    says: ['rest of this Mac', 'phi-4-mini'],
    agent: weekOfEnergy,
    view: 'activity',
    press: ['Show phi-4-mini in the bars'],
    width: 700,
    height: 980,
  },
  'energy-off': {
    says: ['Energy is known only while power is measured.', 'Turn on', 'No figures are kept for this time.'],
    agent: energyOff,
    view: 'activity',
  },
  'energy-empty': {
    says: ['No figures are kept for this time.', 'Power is measured all the time.'],
    agent: noEnergyYet,
    view: 'activity',
  },
  'energy-tokens': {
    says: ['Energy not reported', 'energy not reported', '4,100 tokens generated', 'tokens not reported'],
    agent: tokensOnly,
    view: 'activity',
    height: 760,
  },
  'large-text-models': {
    says: ['phi-4-mini-q4', 'Fetch a model'],
    agent: withModels,
    view: 'models',
    height: 1_600,
    textScale: 2,
  },
  'large-text-activity': {
    says: ['Crashed', 'Only problems'],
    agent: withHistory,
    view: 'activity',
    height: 1_600,
    textScale: 2,
  },
} satisfies Record<string, StatedScene>
