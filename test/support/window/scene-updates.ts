import { withServices, withSettings } from './scene-agents.ts'
import { ready } from './scene-services.ts'
import type { Scene } from './scenes.ts'

const agent = withServices([ready])
const inSettings = { agent: withSettings, view: 'settings', at: 'Updates', height: 1_400 } as const
const version = '1.2.3'

export const updateNames = [
  'update-unknown',
  'update-available',
  'update-downloading',
  'update-elsewhere',
  'update-ready',
  'update-installing',
  'update-installed',
  'update-failed',
  'update-undone',
  'misplaced',
] as const

export const updateScenes: Readonly<Record<(typeof updateNames)[number], Scene>> = {
  'update-unknown': { ...inSettings, app: { commandLink: { state: 'linked', file: '/usr/local/bin/metal-agent' } } },
  'update-available': { ...inSettings, app: { update: { step: 'available', version, bytes: 98e6 } } },
  'update-downloading': {
    ...inSettings,
    app: { update: { step: 'downloading', version, doneBytes: 41e6, totalBytes: 98e6, bytesPerSecond: 8.2e6 } },
  },
  'update-elsewhere': {
    ...inSettings,
    app: {
      update: { step: 'unavailable', why: 'managed' },
      loginItem: 'requires-approval',
      commandLink: { state: 'foreign', file: '/usr/local/bin/metal-agent' },
    },
  },
  'update-ready': { agent, app: { update: { step: 'downloaded', version } } },
  'update-installing': { agent, app: { update: { step: 'installing', version } } },
  'update-installed': { agent, app: { version, lastUpdate: { wanted: version, runs: version } } },
  'update-failed': {
    agent,
    app: {
      update: {
        step: 'failed',
        message: 'The update needs 392 MB for a while, and the disk has 120 MB free: make room and try it again.',
      },
    },
  },
  'update-undone': { agent, app: { lastUpdate: { wanted: version, runs: '1.2.2' } } },
  misplaced: { agent, app: { misplaced: 'diskImage', update: { step: 'unavailable', why: 'misplaced' } } },
}
