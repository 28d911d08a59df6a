import { useState } from 'react'
import type { AppBridge, AppState, BridgeReply, UpdateAction } from '../../contract/app-bridge.ts'
import { percentOf } from '../../contract/service.ts'
import type { TraceKind, TraceList } from '../../contract/uninstall.ts'
import { actionWords, sharedWords } from '../../contract/words.ts'
import { Banner } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { ProgressBar } from '../components/charts.tsx'
import { ChoiceRow, SwitchRow } from '../components/fields.tsx'
import { useQuestion } from '../focus.ts'
import { useAppState } from '../use-answer.ts'
import { appWords, uninstallWords, updateWords } from '../words/app.ts'
import styles from './settings-sections.module.css'

/** What concerns the app beside its agent. Each choice takes effect at once; a page in a browser has nothing of it. */
export function SettingsGeneral({ app }: { readonly app: AppBridge }) {
  const { state, problem, take } = useAppState(app)
  if (state === undefined) return problem === undefined ? null : <p className={styles['place']}>{problem}</p>
  const { loginItem, preferences } = state
  return (
    <>
      <div id="app" className={styles['place']}>
        {problem !== undefined && <p role="alert">{problem}</p>}
        <SwitchRow
          title={sharedWords.loginItem}
          help={appWords.loginItems[loginItem]}
          isOn={loginItem === 'enabled' || loginItem === 'requires-approval'}
          disabled={loginItem === 'unavailable'}
          onChange={(isOn) => void take(app.setLoginItem(isOn))}
        />
        {loginItem === 'requires-approval' && (
          <div>
            <Button onPress={() => void take(app.openPane('loginItems'))}>{appWords.openLoginItems}</Button>
          </div>
        )}
        {preferences === undefined ? (
          <p className={styles['note']}>{appWords.noPreferences}</p>
        ) : (
          <>
            <ChoiceRow
              title={appWords.onQuit}
              help={sharedWords.onQuitHelp}
              words={sharedWords.onQuits}
              value={preferences.onQuit}
              onChange={(onQuit) => void take(app.prefer({ onQuit }))}
            />
            <SwitchRow
              title={sharedWords.notifications}
              help={appWords.notificationsHelp}
              isOn={preferences.notifications}
              onChange={(notifications) => void take(app.prefer({ notifications }))}
            />
            <div>
              <Button look="plain" onPress={() => void take(app.openPane('notifications'))}>
                {appWords.openNotifications}
              </Button>
            </div>
            <SwitchRow
              title={appWords.showTitle}
              help={appWords.showTitleHelp}
              isOn={preferences.showTitle}
              onChange={(showTitle) => void take(app.prefer({ showTitle }))}
            />
          </>
        )}
      </div>
      <div className={styles['place']}>
        <SettingsUpdates app={app} state={state} take={take} />
      </div>
      <div id="uninstall" className={styles['place']}>
        <Uninstall app={app} />
      </div>
    </>
  )
}

interface SettingsUpdatesProps {
  readonly app: AppBridge
  readonly state: AppState
  readonly take: (asked: Promise<BridgeReply<AppState>>) => Promise<boolean>
}

/** Newer versions of the app, and the link to its command. */
function SettingsUpdates({ app, state, take }: SettingsUpdatesProps) {
  const { update, lastUpdate, preferences, commandLink } = state
  const act = (action: UpdateAction) => void take(app.update(action))
  const isPossible = update.step !== 'unavailable'
  return (
    <>
      <div id="updates" className={styles['updates']} tabIndex={-1} role="group" aria-label={updateWords.title}>
        <p>{updateWords.runs(state.version)}</p>
        {lastUpdate !== undefined && <p>{sharedWords.lastUpdate(lastUpdate)}</p>}
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

/** The button for the next step of an update. */
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
      return <Button onPress={() => act('cancel')}>{actionWords.cancelDownload.label}</Button>
    case 'downloaded':
      return <Button onPress={() => act('install')}>{updateWords.install}</Button>
  }
}

interface UninstallProps {
  readonly app: AppBridge
}

/** Removes what a person leaves switched on of everything that was ever written, and ends the app. */
function Uninstall({ app }: UninstallProps) {
  const question = useQuestion()
  const [list, setList] = useState<TraceList>()
  const [problem, setProblem] = useState<string>()
  const open = async () => {
    question.open()
    setList(undefined)
    setProblem(undefined)
    const reply = await app.traces()
    if (reply.ok) setList(reply.value)
    else setProblem(reply.failure.message)
  }
  return (
    <div role="group" aria-label={uninstallWords.title} className={styles['token']} onKeyDown={question.onKeyDown}>
      {question.isAsked ? (
        <>
          {list === undefined && problem === undefined && (
            <div role="status">
              <p>{uninstallWords.looking}</p>
              <ProgressBar label={uninstallWords.looking} percent={undefined} />
            </div>
          )}
          {list !== undefined && <Traces app={app} list={list} onProblem={setProblem} />}
          <div>
            <Button takesFocus onPress={question.close}>
              {uninstallWords.keep}
            </Button>
          </div>
        </>
      ) : (
        <>
          <div>
            <Button takesFocus={question.isOver} onPress={() => void open()}>
              {uninstallWords.open}
            </Button>
          </div>
          <p className={styles['note']}>{uninstallWords.opens}</p>
        </>
      )}
      {question.isAsked && problem !== undefined && <p role="alert">{problem}</p>}
    </div>
  )
}

interface TracesProps extends UninstallProps {
  readonly list: TraceList
  readonly onProblem: (problem: string | undefined) => void
}

function Traces({ app, list: { traces, serving }, onProblem }: TracesProps) {
  const usual = traces.filter(({ isChosen }) => isChosen).map(({ kind }) => kind)
  const [chosen, setChosen] = useState<ReadonlySet<TraceKind>>(new Set(usual))
  const [pending, setPending] = useState(false)
  const remove = async () => {
    setPending(true)
    const reply = await app.uninstall([...chosen])
    setPending(false)
    onProblem(reply.ok ? undefined : reply.failure.message)
  }
  const turn = (kind: TraceKind, isOn: boolean) =>
    setChosen((before) => new Set(isOn ? [...before, kind] : [...before].filter((one) => one !== kind)))
  if (traces.length === 0) return <p role="status">{uninstallWords.nothing}</p>
  return (
    <>
      {serving.length > 0 && <Banner tone="warn">{uninstallWords.serving(serving)}</Banner>}
      {traces.map((trace) => (
        <SwitchRow
          key={trace.kind}
          title={uninstallWords.trace(trace)}
          help={uninstallWords.places(trace)}
          isOn={chosen.has(trace.kind)}
          disabled={pending}
          onChange={(isOn) => turn(trace.kind, isOn)}
        />
      ))}
      <p className={styles['note']}>{uninstallWords.removing}</p>
      <div>
        <Button disabled={chosen.size === 0} pending={pending} onPress={() => void remove()}>
          {uninstallWords.remove}
        </Button>
      </div>
    </>
  )
}
