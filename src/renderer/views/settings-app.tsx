import { useState } from 'react'
import type { AppBridge, BridgeReply, UpdateAction } from '../../contract/app-bridge.ts'
import type { AppState } from '../../contract/app-state.ts'
import { percentOf } from '../../contract/service.ts'
import type { TraceKind, TraceList } from '../../contract/uninstall.ts'
import { actionWords, sharedWords } from '../../contract/words.ts'
import { Banner, Folded } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { ProgressBar } from '../components/charts.tsx'
import { ChoiceRow, SwitchRow } from '../components/fields.tsx'
import { Said } from '../components/text.tsx'
import { useAppState } from '../use-answer.ts'
import { appWords, uninstallWords, updateWords } from '../words/app.ts'
import { Place } from './settings-sections.tsx'

/** What concerns the app beside its agent. Each choice takes effect at once; a page in a browser has nothing of it. */
export function SettingsGeneral({ app }: { readonly app: AppBridge }) {
  const { state, problem, take } = useAppState(app)
  if (state === undefined) return problem === undefined ? null : <Place problem={problem}>{undefined}</Place>
  const { loginItem, preferences } = state
  return (
    <>
      <Place id="app" problem={problem}>
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
          <Said look="small" text={appWords.noPreferences} />
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
      </Place>
      <Updates app={app} state={state} take={take} />
      <Uninstall app={app} />
    </>
  )
}

interface UpdatesProps {
  readonly app: AppBridge
  readonly state: AppState
  readonly take: (asked: Promise<BridgeReply<unknown>>) => Promise<boolean>
}

/** Newer versions of the app, and the link to its command. */
function Updates({ app, state, take }: UpdatesProps) {
  const { update, lastUpdate, preferences, commandLink } = state
  const [action, label] = nextOf[update.step] ?? []
  return (
    <Place id="updates" label={updateWords.title}>
      <p>{updateWords.runs(state.version)}</p>
      {lastUpdate !== undefined && <p>{sharedWords.lastUpdate(lastUpdate)}</p>}
      <div role={update.step === 'downloading' ? undefined : 'status'}>
        <Said look="small" text={updateWords.state(update)} />
      </div>
      {update.step === 'downloading' && <ProgressBar label={updateWords.progress} percent={percentOf(update)} />}
      {action !== undefined && (
        <div>
          <Button onPress={() => void take(app.update(action))}>{label}</Button>
        </div>
      )}
      {update.step !== 'unavailable' && preferences !== undefined && (
        <SwitchRow
          title={updateWords.regularly}
          help={updateWords.regularlyHelp}
          isOn={preferences.looksForUpdates}
          onChange={(looksForUpdates) => void take(app.prefer({ looksForUpdates }))}
        />
      )}
      <SwitchRow
        title={updateWords.command}
        help={updateWords.commandHelp(commandLink)}
        isOn={commandLink.state === 'linked'}
        disabled={commandLink.state === 'unavailable' || commandLink.state === 'foreign'}
        onChange={(isWanted) => void take(app.setCommandLink(isWanted))}
      />
    </Place>
  )
}

/** What a person can do next about an update, by its step. */
const nextOf: Readonly<Partial<Record<AppState['update']['step'], readonly [action: UpdateAction, label: string]>>> = {
  unknown: ['look', updateWords.look],
  newest: ['look', updateWords.look],
  failed: ['look', updateWords.look],
  available: ['download', updateWords.download],
  downloading: ['cancel', actionWords.cancelDownload.label],
  downloaded: ['install', updateWords.install],
}

interface UninstallProps {
  readonly app: AppBridge
}

/** Lists everything that was ever written, and removes what a person leaves switched on of it, which ends the app. */
function Uninstall({ app }: UninstallProps) {
  const [list, setList] = useState<TraceList>()
  const [problem, setProblem] = useState<string>()
  const look = async () => {
    setList(undefined)
    setProblem(undefined)
    const reply = await app.traces()
    if (reply.ok) setList(reply.value)
    else setProblem(reply.failure.message)
  }
  return (
    <Place id="uninstall" label={uninstallWords.title} problem={problem}>
      <Folded title={uninstallWords.open} onToggle={(isOpen) => isOpen && void look()}>
        {list === undefined && problem === undefined && (
          <div role="status">
            <p>{uninstallWords.looking}</p>
            <ProgressBar label={uninstallWords.looking} percent={undefined} />
          </div>
        )}
        {list !== undefined && <Traces app={app} list={list} onProblem={setProblem} />}
      </Folded>
      <Said look="small" text={uninstallWords.opens} />
    </Place>
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
      <Said look="small" text={uninstallWords.removing} />
      <div>
        <Button disabled={chosen.size === 0} pending={pending} onPress={() => void remove()}>
          {uninstallWords.remove}
        </Button>
      </div>
    </>
  )
}
