import { withHistory, withModels } from '../scene-agents.ts'
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
