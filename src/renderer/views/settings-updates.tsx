import type { AppBridge, AppState, BridgeReply, UpdateAction } from '../../contract/app-bridge.ts'
import { Button } from '../components/button.tsx'
import { ChoiceRow } from '../components/choice-row.tsx'
import { ProgressBar } from '../components/progress-bar.tsx'
import { SwitchRow } from '../components/switch-row.tsx'
import { updateWords } from '../words/settings/updates.ts'
import styles from './settings-places.module.css'

interface SettingsUpdatesProps {
  readonly app: AppBridge
  readonly state: AppState
  readonly take: (asked: Promise<BridgeReply<AppState>>) => Promise<boolean>
}

/** Newer versions of the app, and the link to its command. */
export function SettingsUpdates({ app, state, take }: SettingsUpdatesProps) {
  const { update, lastUpdate, preferences, commandLink } = state
  const act = (action: UpdateAction) => void take(app.update(action))
  const isPossible = update.step !== 'unavailable'
  return (
    <>
      <div id="updates" className={styles['updates']} tabIndex={-1} role="group" aria-label={updateWords.title}>
        <p>{updateWords.runs(state.version)}</p>
        {lastUpdate !== undefined && <p>{updateWords.last(lastUpdate)}</p>}
        <p role={update.step === 'downloading' ? undefined : 'status'} className={styles['note']}>
          {updateWords.state(update)}
        </p>
        {update.step === 'downloading' && <ProgressBar label={updateWords.progress} percent={percentOf(update)} />}
        <div>
          <Next step={update.step} act={act} />
        </div>
      </div>
      {isPossible && preferences !== undefined && (
        <>
          <SwitchRow
            title={updateWords.regularly}
            help={updateWords.regularlyHelp}
            isOn={preferences.looksForUpdates}
            onChange={(looksForUpdates) => void take(app.prefer({ looksForUpdates }))}
          />
          <ChoiceRow
            title={updateWords.channel}
            help={updateWords.channelHelp}
            words={updateWords.channels}
            value={preferences.updateChannel}
            onChange={(updateChannel) => void take(app.prefer({ updateChannel }))}
          />
        </>
      )}
      <SwitchRow
        title={updateWords.command}
        help={updateWords.commandHelp(commandLink)}
        isOn={commandLink.state === 'linked'}
        disabled={commandLink.state === 'unavailable' || commandLink.state === 'foreign'}
        onChange={(isWanted) => void take(app.setCommandLink(isWanted))}
      />
    </>
  )
}

interface NextProps {
  readonly step: AppState['update']['step']
  readonly act: (action: UpdateAction) => void
}

/** The one thing that comes next. */
function Next({ step, act }: NextProps) {
  switch (step) {
    case 'unavailable':
    case 'looking':
    case 'installing':
      return null
    case 'unknown':
    case 'newest':
    case 'failed':
      return <Button onPress={() => act('look')}>{updateWords.look}</Button>
    case 'available':
      return <Button onPress={() => act('download')}>{updateWords.download}</Button>
    case 'downloading':
      return <Button onPress={() => act('cancel')}>{updateWords.cancel}</Button>
    case 'downloaded':
      return <Button onPress={() => act('install')}>{updateWords.install}</Button>
  }
}

const percentOf = ({ doneBytes, totalBytes }: Extract<AppState['update'], { step: 'downloading' }>) =>
  totalBytes === undefined ? undefined : Math.floor((100 * doneBytes) / Math.max(totalBytes, 1))
