import { Fragment, type HTMLAttributes, type ReactNode, useEffect, useRef, useState } from 'react'
import type { AppBridge, PowerRuleChange } from '../../contract/app-bridge.ts'
import { ipAddress } from '../../contract/addresses.ts'
import type { PowerRuleView } from '../../contract/power.ts'
import type { Answer as AnswerOf } from '../../contract/queries.ts'
import { Buttons, Folded } from '../components/blocks.tsx'
import { Button, Command, SureButton } from '../components/buttons.tsx'
import { Form, TextInput } from '../components/fields.tsx'
import { Said, Sentence } from '../components/text.tsx'
import { useKeptFocus } from '../focus.ts'
import type { SettingPart } from '../settings-draft.ts'
import { useApp, useSnapshot, useTrust, useWindow } from '../store.ts'
import { useAnswer, useAppState, useRequest, useReturns } from '../use-answer.ts'
import { appWords, hubLoginWords, powerRuleWords } from '../words/app.ts'
import { firstRunWords, placeWords } from '../words/first-run.ts'
import { Answer, AskButton } from './answer.tsx'
import { ContextChoice } from './first-run.tsx'
import { InstallLine } from './install-line.tsx'
import styles from './settings-sections.module.css'

interface PlaceProps extends Pick<HTMLAttributes<HTMLElement>, 'onFocus' | 'onBlur'> {
  readonly id?: SettingPart
  readonly label?: string
  /** Why what it shows is not known, or not of now. */
  readonly problem?: string | undefined
  readonly children: ReactNode
}

/** A part of a page that is no row of the table. */
export const Place = ({ id, label, problem, children, ...handlers }: PlaceProps) => (
  <div id={id} role="group" aria-label={label} className={styles['place']} tabIndex={-1} {...handlers}>
    {problem !== undefined && <p role="alert">{problem}</p>}
    {children}
  </div>
)

const about = 'context'

/** The kubeconfig, its contexts, and the one that is served. */
export function SettingsCluster() {
  const cluster = useSnapshot((snapshot) => snapshot.cluster)
  const trust = useTrust()
  const { answer, problem } = useAnswer({ name: 'contexts' }, [cluster.context, cluster.state])
  return (
    <Place id="contexts" problem={problem}>
      {answer !== undefined && (
        <>
          <p>
            <strong>{placeWords.contextsOf}</strong> <Sentence text={answer.kubeconfig} />
          </p>
          <ul aria-label={placeWords.contexts}>
            {answer.contexts.map(({ name, server, inUse }) => (
              <li key={name} className={styles['choice']}>
                <div className={styles['what']}>
                  <p className={styles['name']}>{name}</p>
                  <Said look="small" text={server === '' ? placeWords.noServer : server} />
                </div>
                {inUse && <Said look="small" text={placeWords.inUse} />}
                {!inUse && trust === 'shell' && (
                  <ContextChoice context={{ name, server }} about={about} leaves label={placeWords.serveOne(name)}>
                    {placeWords.serve}
                  </ContextChoice>
                )}
              </li>
            ))}
          </ul>
          {trust === 'page' && (
            <>
              <Said look="small" text={placeWords.contextNeedsShell} />
              <Command text={placeWords.contextCommand} copyLabel={placeWords.copyContextCommand} />
            </>
          )}
        </>
      )}
      <Answer about={about} />
    </Place>
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
    <Place problem={problem} {...keepFocus}>
      {answer !== undefined && <Addresses answer={answer} />}
      <OtherAddress />
      <div ref={outcome} tabIndex={-1}>
        <Answer about="hostAddress" />
      </div>
    </Place>
  )
}

function Addresses({ answer: { automatic, message, addresses } }: { readonly answer: AnswerOf<'hostAddresses'> }) {
  return (
    <>
      <Said text={message} />
      <ul aria-label={placeWords.addresses}>
        <li className={styles['choice']}>
          <p className={styles['what']}>{placeWords.automatic}</p>
          <UseAddress address="automatic" name={placeWords.automatic} inUse={automatic} />
        </li>
        {addresses.map(({ address, interface: name, inUse, unfit }) => (
          <li key={`${name} ${address}`} className={styles['choice']}>
            <div className={styles['what']}>
              <p>
                {address} <span className={styles['note']}>{name}</span>
              </p>
              {unfit !== undefined && <Said look="small" text={unfit} />}
            </div>
            {(unfit === undefined || (inUse && !automatic)) && (
              <UseAddress address={address} name={address} inUse={inUse && !automatic} />
            )}
          </li>
        ))}
      </ul>
    </>
  )
}

interface UseAddressProps {
  readonly address: string
  readonly name: string
  readonly inUse: boolean
}

const UseAddress = ({ address, name, inUse }: UseAddressProps) =>
  inUse ? (
    <Said look="small" text={placeWords.inUse} />
  ) : (
    <AskButton about="hostAddress" command={{ name: 'setHostAddress', address }} label={placeWords.useOne(name)}>
      {placeWords.use}
    </AskButton>
  )

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
    <Form className={styles['written']} onDone={use}>
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
    </Form>
  )
}

/** The programs that serve models, as they are found now. */
export function SettingsRuntimes() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const found = useSnapshot((snapshot) => snapshot.runtimes)
  const { answer, problem } = useAnswer({ name: 'runtimes' }, [revision, found])
  return (
    <Place id="foundRuntimes" problem={problem}>
      {answer === undefined && problem === undefined && <Said look="small" text={firstRunWords.looking} />}
      <ul className={styles['runtimes']} aria-label={firstRunWords.runtimes}>
        {answer?.runtimes.map((runtime) => (
          <li key={runtime.name}>
            <div role="group" aria-label={runtime.name}>
              <p>
                <strong className={styles['name']}>{runtime.name}</strong>{' '}
                <Sentence text={firstRunWords.runtime(runtime)} />
              </p>
              {runtime.formats.length > 0 && <Said look="small" text={firstRunWords.formats(runtime)} />}
              {runtime.message !== undefined && <Said look="small" text={runtime.message} />}
              {runtime.install !== undefined && <InstallLine name={runtime.name} line={runtime.install} />}
            </div>
          </li>
        ))}
      </ul>
    </Place>
  )
}

/** How much room is left where models are stored, and what the Hub is asked with. */
export function SettingsModels() {
  const downloads = useSnapshot((snapshot) => snapshot.downloads.length)
  const { answer, problem } = useAnswer({ name: 'models' }, [downloads])
  return (
    <>
      <Place problem={problem}>{answer !== undefined && <p>{placeWords.free(answer)}</p>}</Place>
      <HubLogin />
    </>
  )
}

/** Where the token for the Hub comes from; the token itself is in no page. */
function HubLogin() {
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const app = useApp()
  const { answer, problem, again } = useAnswer({ name: 'hubLogin' }, [revision])
  return (
    <Place id="hubToken" problem={problem}>
      {answer !== undefined && (
        <>
          <p className={styles['name']}>{hubLoginWords.title}</p>
          <Said text={hubLoginWords.source(answer)} />
          {answer.problem !== undefined && <p>{answer.problem}</p>}
        </>
      )}
      {app === undefined ? (
        <>
          <Said look="small" text={hubLoginWords.inTerminal} />
          <Command text={hubLoginWords.command} copyLabel={hubLoginWords.copyCommand} />
        </>
      ) : (
        <KeptToken app={app} login={answer} onChange={again} />
      )}
    </Place>
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
  const { state, problem, look, take } = useAppState(app)
  const [text, setText] = useState('')
  const [isPending, setPending] = useState(false)
  // The button that removes it is gone with it.
  const home = useRef<HTMLDivElement>(null)
  const keepFocus = useKeptFocus(home)
  useEffect(() => {
    if (login !== undefined) void look()
  }, [login, look])
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
      <div ref={home} tabIndex={-1}>
        <Said look="small" text={isHere ? appWords.tokenStates[hubToken] : appWords.tokenElsewhere} />
      </div>
      {problem !== undefined && <p role="alert">{problem}</p>}
      {isHere && hubToken !== 'unavailable' && (
        <Form className={styles['written']} onDone={keep}>
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
        </Form>
      )}
      {isHere && (hubToken === 'kept' || hubToken === 'unreadable') && (
        <div>
          <SureButton
            look="plain"
            pending={isPending}
            question={appWords.removeTokenSure}
            yes={appWords.removeTokenNow}
            no={appWords.keepTokenHere}
            onYes={() => void change(app.removeHubToken())}
          >
            {appWords.removeToken}
          </SureButton>
        </div>
      )}
    </div>
  )
}

/** The rule that sudo needs for powermetrics: how it stands, and all that it says, before it is installed. */
export function SettingsPower() {
  const power = useSnapshot((snapshot) => snapshot.power?.state)
  const { answer, problem, again } = useAnswer({ name: 'powerRule' }, [power, useReturns()])
  return (
    <Place id="powerRule" problem={problem}>
      {answer !== undefined && (
        <>
          <p className={styles['name']}>{powerRuleWords.title}</p>
          <p role="status">{powerRuleWords.states[answer.state]}</p>
          {answer.message !== undefined && <Said look="small" text={answer.message} />}
          {answer.state !== 'notHere' && (
            <>
              <Folded title={answer.state === 'installed' ? powerRuleWords.shown : powerRuleWords.show}>
                <Said look="small" text={powerRuleWords.file(answer.file)} />
                <Command text={answer.rule} label={powerRuleWords.label} copyLabel={powerRuleWords.copyRule} />
              </Folded>
              <ChangeRule state={answer.state} onChange={again} />
            </>
          )}
        </>
      )}
    </Place>
  )
}

interface ChangeRuleProps extends Pick<PowerRuleView, 'state'> {
  readonly onChange: () => void
}

/** The app shows the script first, and has Terminal run it; a page in a browser has the commands. */
function ChangeRule({ state, onChange }: ChangeRuleProps) {
  const app = useApp()
  const [pending, setPending] = useState<PowerRuleChange>()
  const [said, setSaid] = useState<string>()
  const changes = [
    ...(state === 'installed' ? [] : ['install' as const]),
    ...(state === 'missing' ? [] : ['remove' as const]),
  ]
  if (app === undefined) {
    return changes.map((change) => (
      <Fragment key={change}>
        <Said look="small" text={powerRuleWords.inTerminal[change]} />
        <Command text={powerRuleWords.commands[change]} copyLabel={powerRuleWords.copy[change]} />
      </Fragment>
    ))
  }
  const ask = async (change: PowerRuleChange) => {
    setPending(change)
    const reply = await app.changePowerRule(change)
    setPending(undefined)
    setSaid(reply.ok ? reply.value?.message : reply.failure.message)
    onChange()
  }
  return (
    <>
      <Said look="small" text={powerRuleWords.inApp} />
      <Buttons>
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
      </Buttons>
      {said !== undefined && <p role="status">{said}</p>}
    </>
  )
}
