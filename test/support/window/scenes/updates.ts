import { withServices, withSettings } from '../scene-agents.ts'
import { ready } from '../scene-services.ts'
import type { StatedScene } from './scene.ts'

const agent = withServices([ready])
const inSettings = { agent: withSettings, view: 'settings', at: 'Updates', height: 1_400 } as const
const version = '1.2.3'

export const updateScenes = {
  'update-unknown': {
    says: ['Metalbar 1.2.2 is running.', 'The app has not checked', 'Check for updates', 'links to the command'],
    ...inSettings,
    app: { commandLink: { state: 'linked', file: '/usr/local/bin/metal-agent' } },
  },
  'update-available': {
    says: ['Metalbar 1.2.3 is available: 98.0 MB.', 'Download it', 'Check for updates once a day'],
    ...inSettings,
    app: { update: { step: 'available', version, bytes: 98e6 } },
  },
  'update-downloading': {
    says: ['41.0 MB of 98.0 MB (41 %), 8.2 MB/s.', 'Cancel download'],
    ...inSettings,
    app: { update: { step: 'downloading', version, doneBytes: 41e6, totalBytes: 98e6, bytesPerSecond: 8.2e6 } },
  },
  'update-elsewhere': {
    says: ['Your administrator updates this Mac', 'is left alone', 'Open Login Items…'],
    ...inSettings,
    app: {
      update: { step: 'unavailable', why: 'managed' },
      loginItem: 'requires-approval',
      commandLink: { state: 'foreign', file: '/usr/local/bin/metal-agent' },
    },
  },
  'update-ready': {
    says: ['Metalbar 1.2.3 is downloaded.', 'Restart to update'],
    agent,
    app: { update: { step: 'downloaded', version } },
  },
  'update-installing': {
    says: ['macOS checks who signed Metalbar 1.2.3'],
    agent,
    app: { update: { step: 'installing', version } },
  },
  'update-installed': {
    says: ['Metalbar is now 1.2.3.'],
    agent,
    app: { version, lastUpdate: { wanted: version, runs: version } },
  },
  'update-failed': {
    says: ['the disk has 120 MB free', 'Check for updates'],
    agent,
    app: {
      update: {
        step: 'failed',
        message: 'The update needs 392 MB for a while, and the disk has 120 MB free. Free some space and try again.',
      },
    },
  },
  'update-undone': {
    says: ['The update to 1.2.3 failed'],
    agent,
    app: { lastUpdate: { wanted: version, runs: '1.2.2' } },
  },
  misplaced: {
    says: ['Metalbar runs from its disk image.', 'Move to Applications'],
    agent,
    app: { misplaced: 'diskImage', update: { step: 'unavailable', why: 'misplaced' } },
  },
} satisfies Record<string, StatedScene>
