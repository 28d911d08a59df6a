import { Fragment, useEffect, useRef, useState } from 'react'
import type { AppBridge, PowerRuleChange } from '../../contract/app-bridge.ts'
import { ipAddress } from '../../contract/addresses.ts'
import type { PowerRuleView } from '../../contract/power.ts'
import type { Answer as AnswerOf } from '../../contract/queries.ts'
import { Folded } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { TextInput } from '../components/fields.tsx'
import { Sentence } from '../components/text.tsx'
import { useKeptFocus, useQuestion } from '../focus.ts'
import { useApp, useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer, useAppState, useRequest } from '../use-answer.ts'
import { appWords, hubLoginWords, powerRuleWords } from '../words/app.ts'
import { firstRunWords, placeWords } from '../words/first-run.ts'
import { Answer, AskButton } from './answer.tsx'
import { ContextChoice } from './first-run.tsx'
import { InstallLine } from './install-line.tsx'
import styles from './settings-sections.module.css'

const about = 'context'

/** The kubeconfig, its contexts, and the one that is served. */
export function SettingsCluster() {
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const trust = useTrust()
  const { answer, problem } = useAnswer({ name: 'contexts' }, [cluster.context, cluster.state])
  return (
    <div id="contexts" className={styles['place']} tabIndex={-1}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p>
            <strong>{placeWords.contextsOf}</strong> <Sentence text={answer.kubeconfig} />
          </p>
          <ul className={styles['choices']} aria-label={placeWords.contexts}>
            {answer.contexts.map(({ name, server, inUse }) => (
              <li key={name} className={styles['choice']}>
                <div className={styles['what']}>
                  <p className={styles['name']}>{name}</p>
                  <p className={styles['note']}>
                    <Sentence text={server === '' ? placeWords.noServer : server} />
                  </p>
                </div>
                {inUse ? (
                  <span className={styles['note']}>{placeWords.inUse}</span>
                ) : (
                  trust === 'shell' && (
                    <ContextChoice context={{ name, server }} about={about} leaves label={placeWords.serveOne(name)}>
                      {placeWords.serve}
                    </ContextChoice>
                  )
                )}
              </li>
            ))}
          </ul>
          {trust === 'page' && (
            <>
              <p className={styles['note']}>{placeWords.contextNeedsShell}</p>
              <Command text={placeWords.contextCommand} copyLabel={placeWords.copyContextCommand} />
            </>
          )}
        </>
      )}
      <Answer about={about} />
    </div>
  )
}

/** The address that is published to pods, and the others to choose from. A choice takes effect at once. */
export function SettingsNetwork() {
  const host = useSnapshot((snapshot) => snapshot.host)
  const state = useWindow(({ requests }) => requests['hostAddress']?.state)
  const { answer, problem } = useAnswer({ name: 'hostAddresses' }, [host, state])
  // The button of the address that is in use by now is gone.
  const outcome = useRef<HTMLDivElement>(null)
  const keepFocus = useKeptFocus(outcome)
  return (
    <div className={styles['place']} {...keepFocus}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && <Addresses answer={answer} />}
      <OtherAddress />
      <div ref={outcome} tabIndex={-1}>
        <Answer about="hostAddress" />
      </div>
    </div>
  )
}

function Addresses({ answer: { automatic, message, addresses } }: { readonly answer: AnswerOf<'hostAddresses'> }) {
  return (
    <>
      <p>
        <Sentence text={message} />
      </p>
      <ul className={styles['choices']} aria-label={placeWords.addresses}>
        <li className={styles['choice']}>
          <p className={styles['what']}>{placeWords.automatic}</p>
          {automatic ? <InUse /> : <UseAddress address="automatic" name={placeWords.automatic} />}
        </li>
        {addresses.map(({ address, interface: name, inUse, unfit }) => (
          <li key={`${name} ${address}`} className={styles['choice']}>
            <div className={styles['what']}>
              <p>
                {address} <span className={styles['note']}>{name}</span>
              </p>
              {unfit !== undefined && <p className={styles['note']}>{unfit}</p>}
            </div>
            {inUse && !automatic ? <InUse /> : unfit === undefined && <UseAddress address={address} name={address} />}
          </li>
        ))}
      </ul>
    </>
  )
}

const UseAddress = ({ address, name }: { readonly address: string; readonly name: string }) => (
  <AskButton about="hostAddress" command={{ name: 'setHostAddress', address }} label={placeWords.useOne(name)}>
    {placeWords.use}
  </AskButton>
)

const InUse = () => <span className={styles['note']}>{placeWords.inUse}</span>

/** An address that is written, as one that came after the list was drawn. */
function OtherAddress() {
  const [text, setText] = useState('')
  /** The person is done with writing it. */
  const [isWritten, setWritten] = useState(false)
  const { pending, disabled, ask } = useRequest('hostAddress')
  const address = text.trim()
  const isRight = ipAddress.safeParse(address).success
  const use = () => {
    setWritten(true)
    if (isRight && !pending && !disabled) void ask({ name: 'setHostAddress', address })
  }
  return (
    <form
      className={styles['written']}
      onSubmit={(event) => {
        event.preventDefault()
        use()
      }}
    >
      <TextInput
        id="hostAddress"
        label={placeWords.otherAddress}
        value={text}
        onChange={(written) => {
          setWritten(false)
          setText(written)
        }}
        onBlur={() => setWritten(true)}
        help={placeWords.otherAddressHelp}
        problem={!isWritten || address === '' || isRight ? undefined : placeWords.noAddress}
        beside={
          <Button disabled={disabled || !isRight} pending={pending} label={placeWords.useWritten} onPress={use}>
            {placeWords.use}
          </Button>
        }
      />
    </form>
  )
}

/** The programs that serve models, as they are found now. */
export function SettingsRuntimes() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const found = useSnapshot((snapshot) => snapshot.runtimes)
  const { answer, problem } = useAnswer({ name: 'runtimes' }, [revision, found])
  return (
    <div id="foundRuntimes" className={styles['place']} tabIndex={-1}>
      {problem !== undefined && <p>{problem}</p>}
      {answer === undefined && problem === undefined && <p className={styles['note']}>{firstRunWords.looking}</p>}
      <ul className={styles['runtimes']} aria-label={firstRunWords.runtimes}>
        {answer?.runtimes.map((runtime) => (
          <li key={runtime.name}>
            <div role="group" aria-label={runtime.name}>
              <p>
                <strong className={styles['name']}>{runtime.name}</strong>{' '}
                <Sentence text={firstRunWords.runtime(runtime)} />
              </p>
              {runtime.formats.length > 0 && <p className={styles['note']}>{firstRunWords.formats(runtime)}</p>}
              {runtime.message !== undefined && (
                <p className={styles['note']}>
                  <Sentence text={runtime.message} />
                </p>
              )}
              {runtime.install !== undefined && <InstallLine name={runtime.name} line={runtime.install} />}
            </div>
          </li>
        ))}
      </ul>
    </div>
  )
}

/** Where models are stored, how much room is left there, and what the Hub is asked with. */
export function SettingsModels() {
  const downloads = useSnapshot((snapshot) => snapshot.downloads.length)
  const { answer, problem } = useAnswer({ name: 'models' }, [downloads])
  return (
    <>
      <div className={styles['place']}>
        {problem !== undefined && <p>{problem}</p>}
        {answer !== undefined && <p>{placeWords.free(answer)}</p>}
      </div>
      <HubLogin />
    </>
  )
}

/** Where the token for the Hub comes from; the token itself is in no page. */
function HubLogin() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const app = useApp()
  const [changes, setChanges] = useState(0)
  const { answer, problem } = useAnswer({ name: 'hubLogin' }, [revision, changes])
  return (
    <div id="hubToken" className={styles['place']} tabIndex={-1}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p className={styles['name']}>{hubLoginWords.title}</p>
          <p>
            <Sentence text={hubLoginWords.source(answer)} />
          </p>
          {answer.problem !== undefined && <p>{answer.problem}</p>}
        </>
      )}
      {app === undefined ? (
        <>
          <p className={styles['note']}>{hubLoginWords.inTerminal}</p>
          <Command text={hubLoginWords.command} copyLabel={hubLoginWords.copyCommand} />
        </>
      ) : (
        <KeptToken app={app} login={answer} onChange={() => setChanges((before) => before + 1)} />
      )}
    </div>
  )
}

interface KeptTokenProps {
  readonly app: AppBridge
  /** What the agent said last: asking it, it may have found that the keychain does not give the token back. */
  readonly login: AnswerOf<'hubLogin'> | undefined
  /** The token was stored or removed. */
  readonly onChange: () => void
}

/** The token that the app keeps for its agent: it can be written and removed here, and never be read. */
function KeptToken({ app, login, onChange }: KeptTokenProps) {
  const { state, problem, take } = useAppState(app)
  const [text, setText] = useState('')
  const [isPending, setPending] = useState(false)
  const question = useQuestion()
  // The button that removes it is gone with it.
  const home = useRef<HTMLParagraphElement>(null)
  const keepFocus = useKeptFocus(home)
  useEffect(() => {
    if (login !== undefined) void take(app.appState())
  }, [app, login, take])
  if (state === undefined) return problem === undefined ? null : <p>{problem}</p>
  const { hubToken, isHere } = state
  const token = text.trim()
  const change = async (asked: ReturnType<AppBridge['setHubToken']>) => {
    setPending(true)
    if (await take(asked)) {
      setText('')
      onChange()
    }
    setPending(false)
  }
  const keep = () => {
    if (token !== '' && !isPending) void change(app.setHubToken(token))
  }
  return (
    <div className={styles['token']} {...keepFocus}>
      <p className={styles['note']} ref={home} tabIndex={-1}>
        {isHere ? appWords.tokenStates[hubToken] : appWords.tokenElsewhere}
      </p>
      {problem !== undefined && <p role="alert">{problem}</p>}
      {isHere && hubToken !== 'unavailable' && (
        <form
          className={styles['written']}
          onSubmit={(event) => {
            event.preventDefault()
            keep()
          }}
        >
          <TextInput
            isSecret
            label={appWords.token}
            value={text}
            onChange={setText}
            help={appWords.tokenHelp}
            beside={
              <Button disabled={token === ''} pending={isPending} label={appWords.keepTokenLabel} onPress={keep}>
                {appWords.keepToken}
              </Button>
            }
          />
        </form>
      )}
      {isHere && (hubToken === 'kept' || hubToken === 'unreadable') && (
        <div className={styles['buttons']} onKeyDown={question.onKeyDown}>
          {question.isAsked ? (
            <>
              <span>{appWords.removeTokenSure}</span>
              <Button
                pending={isPending}
                onPress={() => {
                  question.close()
                  void change(app.removeHubToken())
                }}
              >
                {appWords.removeTokenNow}
              </Button>
              <Button takesFocus onPress={question.close}>
                {appWords.keepTokenHere}
              </Button>
            </>
          ) : (
            <Button look="plain" pending={isPending} takesFocus={question.isOver} onPress={question.open}>
              {appWords.removeToken}
            </Button>
          )}
        </div>
      )}
    </div>
  )
}

/** The rule that sudo needs for powermetrics: how it stands, and all that it says, before it is installed. */
export function SettingsPower() {
  const power = useSnapshot((snapshot) => snapshot.power?.state)
  const [looks, setLooks] = useState(0)
  const look = () => setLooks((before) => before + 1)
  const { answer, problem } = useAnswer({ name: 'powerRule' }, [power, looks])
  return (
    <div id="powerRule" className={styles['place']} tabIndex={-1}>
      {problem !== undefined && <p>{problem}</p>}
      {answer !== undefined && (
        <>
          <p className={styles['name']}>{powerRuleWords.title}</p>
          <p role="status">{powerRuleWords.states[answer.state]}</p>
          {answer.message !== undefined && (
            <p className={styles['note']}>
              <Sentence text={answer.message} />
            </p>
          )}
          {answer.state !== 'notHere' && (
            <>
              <Rule rule={answer} />
              <Change state={answer.state} onChange={look} />
              <div>
                <Button look="plain" onPress={look}>
                  {powerRuleWords.lookAgain}
                </Button>
              </div>
            </>
          )}
        </>
      )}
    </div>
  )
}

function Rule({ rule: { state, file, rule } }: { readonly rule: PowerRuleView }) {
  return (
    <Folded title={state === 'installed' ? powerRuleWords.shown : powerRuleWords.show}>
      <p className={styles['note']}>{powerRuleWords.file(file)}</p>
      <Command text={rule} label={powerRuleWords.label} copyLabel={powerRuleWords.copyRule} />
    </Folded>
  )
}

interface ChangeProps extends Pick<PowerRuleView, 'state'> {
  readonly onChange: () => void
}

function Change({ state, onChange }: ChangeProps) {
  const app = useApp()
  const changes = [
    ...(state === 'installed' ? [] : ['install' as const]),
    ...(state === 'missing' ? [] : ['remove' as const]),
  ]
  if (app !== undefined) return <ChangeInApp app={app} changes={changes} onChange={onChange} />
  return changes.map((change) => (
    <Fragment key={change}>
      <p className={styles['note']}>{powerRuleWords.inTerminal[change]}</p>
      <Command text={powerRuleWords.commands[change]} copyLabel={powerRuleWords.copy[change]} />
    </Fragment>
  ))
}

interface ChangeInAppProps {
  readonly app: AppBridge
  readonly changes: readonly PowerRuleChange[]
  readonly onChange: () => void
}

/** The app shows the script first, and has Terminal run it. */
function ChangeInApp({ app, changes, onChange }: ChangeInAppProps) {
  const [pending, setPending] = useState<PowerRuleChange>()
  const [said, setSaid] = useState<string>()
  const ask = async (change: PowerRuleChange) => {
    setPending(change)
    const reply = await app.changePowerRule(change)
    setPending(undefined)
    setSaid(reply.ok ? reply.value?.message : reply.failure.message)
    onChange()
  }
  return (
    <>
      <p className={styles['note']}>{powerRuleWords.inApp}</p>
      <div className={styles['buttons']}>
        {changes.map((change) => (
          <Button
            key={change}
            disabled={pending !== undefined && pending !== change}
            pending={pending === change}
            onPress={() => void ask(change)}
          >
            {powerRuleWords.change[change]}
          </Button>
        ))}
      </div>
      {said !== undefined && <p role="status">{said}</p>}
    </>
  )
}
