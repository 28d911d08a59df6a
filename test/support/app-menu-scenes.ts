import type { AgentView } from '../../src/main/agent/agent-view.ts'
import { defaultPreferences } from '../../src/main/preferences.ts'
import { sampleView, withSnapshot } from './sample-view.ts'

/** What concerns the app itself, whatever its agent does. */
export const appMenuScenes: Readonly<Record<string, AgentView>> = {
  'the agent is another program': withSnapshot({ services: [] }, { isHere: false }),
  'the app is opened at login': withSnapshot({ services: [] }, { loginItem: 'enabled' }),
  'macOS wants to be asked for leave': withSnapshot({ services: [] }, { loginItem: 'requires-approval' }),
  'the first model serves, and the login item is offered': withSnapshot(
    {},
    { loginItem: 'not-registered', offersLoginItem: true },
  ),
  'Quit does not ask': withSnapshot({ services: [] }, { preferences: { ...defaultPreferences, onQuit: 'drain' } }),
  'a newer app is available': withSnapshot(
    { services: [] },
    { update: { step: 'available', version: '1.2.3', bytes: 131_000_000 } },
  ),
  'a newer app is downloaded': withSnapshot(
    { services: [] },
    {
      update: {
        step: 'downloading',
        version: '1.2.3',
        doneBytes: 52_400_000,
        totalBytes: 131_000_000,
        bytesPerSecond: 9_000_000,
      },
    },
  ),
  'a newer app waits to be installed': withSnapshot(
    { services: [] },
    { update: { step: 'downloaded', version: '1.2.3' } },
  ),
  'an update failed': withSnapshot(
    { services: [] },
    { update: { step: 'failed', message: 'The update server reports an error. Try again later.' } },
  ),
  'an update did not happen': withSnapshot(
    { services: [] },
    { update: { step: 'unknown' }, lastUpdate: { wanted: '1.2.3', runs: '1.2.2' } },
  ),
  'who manages the Mac brings updates': withSnapshot(
    { services: [] },
    { update: { step: 'unavailable', why: 'managed' } },
  ),
  'the app runs from its disk image': withSnapshot({ services: [] }, { misplaced: 'diskImage' }),
  'its command is linked': withSnapshot(
    { services: [] },
    { commandLink: { state: 'linked', file: '/usr/local/bin/metal-agent' } },
  ),
  'its command leads to where the app was': withSnapshot(
    { services: [] },
    {
      commandLink: {
        state: 'outdated',
        file: '/usr/local/bin/metal-agent',
        target: '/Volumes/Metalbar/Metalbar.app/Contents/Resources/bin/metal-agent',
      },
    },
  ),
  'another command has its name': withSnapshot(
    { services: [] },
    { commandLink: { state: 'foreign', file: '/opt/homebrew/bin/metal-agent' } },
  ),
  'it quits': withSnapshot({ services: [] }, { isQuitting: true }),
  'the window crashed twice': withSnapshot(
    { services: [] },
    { pageProblem: 'The window crashed twice within a minute and stays closed.' },
  ),
  'no agent answers': sampleView({ snapshot: undefined, problem: 'No agent is running on the state folder.' }),
  'the agent could not be started': sampleView({
    snapshot: undefined,
    problem: 'The node id /state/node-id cannot be used: EACCES; repair the file or choose another --state-dir.',
  }),
  'start settings that cannot be used': sampleView({
    snapshot: undefined,
    isBroken: true,
    problem:
      'The start settings /state/start-settings.json cannot be used: "port" must be a port; repair the file and open Metalbar again, or choose Reset preferences in the menu.',
  }),
  'preferences that cannot be used': sampleView({
    snapshot: undefined,
    isBroken: true,
    preferences: undefined,
    problem: `The preferences /state/preferences.json cannot be used: "showTitle" must be true or false; ${'repair it, '.repeat(10)}or choose Reset preferences in the menu.`,
  }),
}
