import { type ReactNode, useState } from 'react'
import type { ChosenFile } from '../../contract/app-bridge.ts'
import { parseByteCount } from '../../contract/format.ts'
import {
  editableRow,
  type SettingName,
  type SettingView,
  spellingOf,
  type StartSettingView,
} from '../../contract/settings.ts'
import { Facts } from '../components/blocks.tsx'
import { Button, Command } from '../components/buttons.tsx'
import { ChoiceRow, SwitchRow, TextInput, UnitChoice } from '../components/fields.tsx'
import { NoteGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/text.tsx'
import {
  type ByteUnit,
  byteUnits,
  isConflict,
  joinByteText,
  splitByteText,
  textOf,
  type Written,
} from '../settings-draft.ts'
import { useApp, useTrust } from '../store.ts'
import { settingWords } from '../words/settings.ts'
import styles from './setting-field.module.css'

interface SettingFieldProps {
  readonly view: SettingView
  readonly written: Written | undefined
  readonly problem: string | undefined
  /** A person was just led here. */
  readonly isFound: boolean
  /** What was written is on its way to the agent. */
  readonly isPending: boolean
  /** Drawn above the field, for a value that is seen better than written. */
  readonly scale?: (text: string, onChange: (text: string) => void) => ReactNode
  /** Undefined = the draft is dropped, and the current value stays. */
  readonly onChange: (text: string | null | undefined) => void
}

export function SettingField(props: SettingFieldProps) {
  const { view, written, isFound, isPending, scale, onChange } = props
  const { name, from } = view
  const trust = useTrust()
  const spelled = spellingOf(name)
  const title = settingWords.titleOf(name)
  const help = settingWords.help(name)
  const why =
    from === 'flag'
      ? settingWords.byFlag
      : editableRow(name).trust === 'shell' && trust === 'page'
        ? settingWords.needsShell
        : undefined
  const about = (
    <>
      <More text={settingWords.more(name)} />
      <Facts
        facts={[
          ...(editableRow(name).kind === 'switch' || editableRow(name).kind === 'choice'
            ? []
            : [[settingWords.accepts, settingWords.wants(name)] as const]),
          [settingWords.change, settingWords.counts(name)],
          [settingWords.origin, settingWords.origins[from]],
          [settingWords.flag, `--${editableRow(name).flag}`],
        ]}
      />
      {from === 'startFile' && <p>{settingWords.byStartFile}</p>}
      {from === 'person' && why === undefined && written?.text !== null && (
        <div>
          <Button label={settingWords.defaultOf(title)} onPress={() => onChange(null)}>
            {settingWords.useDefault}
          </Button>
        </div>
      )}
      {why !== undefined && <p>{why}</p>}
      {why === settingWords.needsShell && (
        <Command text={settingWords.command(spelled)} copyLabel={settingWords.copyCommand(spelled)} />
      )}
    </>
  )
  if (why !== undefined) {
    return (
      <Row name={name} title={title} about={about} isFound={isFound}>
        <Value title={title} value={settingWords.value(view)} help={help} />
      </Row>
    )
  }
  return (
    <Row name={name} title={title} about={about} isFound={isFound} isChanged={written !== undefined}>
      {scale?.(written === undefined ? textOf(view) : (written.text ?? ''), onChange)}
      <Field {...props} />
      {written !== undefined && !isPending && isConflict(written, view) && (
        <Conflict view={view} onTake={() => onChange(undefined)} />
      )}
      {written?.text === null && <p className={styles['note']}>{settingWords.willBeDefault}</p>}
    </Row>
  )
}

interface StartSettingProps {
  readonly view: StartSettingView
  /** The app's start file; undefined if the agent is started with flags. */
  readonly startFile: string | undefined
  readonly isFound: boolean
}

/** A setting that counts only from the start of the agent: what it is, and how another value would be stated. */
export function StartSetting({ view, startFile, isFound }: StartSettingProps) {
  const line = startFile === undefined ? view.flag : view.line
  const title = settingWords.startTitle(view)
  const about = (
    <>
      <More text={settingWords.startMore(view)} />
      <Facts
        facts={[
          [settingWords.change, settingWords.countsFromStart],
          [settingWords.origin, settingWords.origins[view.from]],
        ]}
      />
      <p>
        <Sentence text={settingWords.startWhy(view, startFile)} />
      </p>
      {line !== undefined && <Command text={line} copyLabel={settingWords.copyStart(view)} />}
    </>
  )
  return (
    <Row name={view.name} title={title} about={about} isFound={isFound}>
      <Value title={title} value={settingWords.startValue(view)} help={settingWords.startHelp(view)} />
    </Row>
  )
}

interface RowProps {
  readonly name: string
  readonly title: string
  /** What few want to know, shown once the row is opened. */
  readonly about: ReactNode
  readonly isFound: boolean
  readonly isChanged?: boolean
  readonly children: ReactNode
}

const Row = ({ name, title, about, isFound, isChanged = false, children }: RowProps) => (
  <div id={name} className={styles['row']} data-changed={isChanged} data-found={isFound}>
    {children}
    <details className={styles['about']}>
      <summary className={styles['opener']} aria-label={settingWords.about(title)}>
        <NoteGlyph />
      </summary>
      <div className={styles['aboutText']}>{about}</div>
    </details>
  </div>
)

const More = ({ text }: { readonly text: string | undefined }) =>
  text === undefined ? null : (
    <p>
      <Sentence text={text} />
    </p>
  )

interface ValueProps {
  readonly title: string
  readonly value: string
  readonly help: string
}

/** Of a setting that cannot be set here. */
const Value = ({ title, value, help }: ValueProps) => (
  <>
    <p className={styles['fixed']}>
      <strong className={styles['label']}>{title}</strong>
      <span className={styles['value']}>
        <Sentence text={value} />
      </span>
    </p>
    <p className={styles['note']}>
      <Sentence text={help} />
    </p>
  </>
)

interface ConflictProps {
  readonly view: SettingView
  readonly onTake: () => void
}

/** Somebody else set it while a person wrote here. */
function Conflict({ view, onTake }: ConflictProps) {
  return (
    <div className={styles['conflict']} role="status">
      <p>{settingWords.conflict(view)}</p>
      <Button look="plain" label={settingWords.takeOf(settingWords.titleOf(view.name))} onPress={onTake}>
        {settingWords.take}
      </Button>
    </div>
  )
}

function Field({ view, written, problem, onChange }: SettingFieldProps) {
  const { name } = view
  const help = settingWords.help(name)
  const text = written?.text ?? (written === undefined ? textOf(view) : '')
  const title = settingWords.titleOf(name)
  const field = { title, text, help, problem, onChange }
  switch (editableRow(name).kind) {
    case 'switch':
      return <SwitchRow {...field} isOn={text === 'on'} onChange={(on) => onChange(on ? 'on' : 'off')} />
    case 'choice':
      return <ChoiceRow {...field} words={settingWords.choicesOf(name) ?? {}} value={text} />
    case 'bytes':
      return <ByteField {...field} usualUnit={name === 'downloadBytesPerSecond' ? 'M' : 'G'} />
    case 'path':
    case 'executable':
      return <PathField {...field} name={name} />
    default:
      return (
        <TextInput
          label={title}
          value={text}
          onChange={onChange}
          help={help}
          problem={problem}
          placeholder={settingWords.placeholder}
        />
      )
  }
}

interface ByteFieldProps {
  readonly title: string
  /** A number with its unit as Kubernetes writes it, such as `24Gi`; what a person writes may be none. */
  readonly text: string
  readonly help: string
  readonly problem: string | undefined
  /** The unit shown for a number without one, such as 0. */
  readonly usualUnit: ByteUnit
  readonly onChange: (text: string) => void
}

/** A number of bytes, in a unit that is chosen beside it; below it is what that comes to. */
function ByteField({ title, text, help, problem, usualUnit, onChange }: ByteFieldProps) {
  const { amount, unit: written } = splitByteText(text)
  const [kept, setKept] = useState<ByteUnit>()
  const unit = written ?? kept ?? usualUnit
  const bytes = parseByteCount(text) ?? 0
  const choose = (next: ByteUnit) => {
    setKept(next)
    if (amount !== '') onChange(joinByteText(amount, next))
  }
  return (
    <TextInput
      label={title}
      value={amount}
      onChange={(next) => onChange(joinByteText(next, unit))}
      help={bytes > 0 ? `${settingWords.isBytes(bytes)} ${help}` : help}
      problem={problem}
      placeholder={settingWords.placeholder}
      beside={
        <UnitChoice
          label={settingWords.unitOf(title)}
          units={byteUnits}
          words={settingWords.units}
          value={unit}
          onChange={choose}
        />
      }
    />
  )
}

const kinds: Readonly<Partial<Record<SettingName, ChosenFile>>> = {
  kubeconfig: 'kubeconfig',
  llamaServer: 'executable',
  hubTokenFile: 'tokenFile',
  caFile: 'certificates',
}

interface PathFieldProps {
  readonly name: SettingName
  readonly title: string
  readonly text: string
  readonly help: string
  readonly problem: string | undefined
  readonly onChange: (text: string) => void
}

/** A path that is written, or in the app chosen in a dialog. */
function PathField({ name, title, text, help, problem, onChange }: PathFieldProps) {
  const app = useApp()
  const [refusal, setRefusal] = useState<string>()
  const kind = kinds[name]
  const choose = async (what: ChosenFile) => {
    const reply = await app?.chooseFile(what)
    setRefusal(reply?.ok === false ? reply.failure.message : undefined)
    if (reply?.ok === true && reply.value !== null) onChange(reply.value)
  }
  const write = (written: string) => {
    setRefusal(undefined)
    onChange(written)
  }
  return (
    <TextInput
      label={title}
      value={text}
      onChange={write}
      help={help}
      problem={problem ?? refusal}
      placeholder={settingWords.placeholder}
      {...(app !== undefined &&
        kind !== undefined && {
          beside: (
            <Button label={settingWords.chooseFor(title)} onPress={() => void choose(kind)}>
              {settingWords.choose}
            </Button>
          ),
        })}
    />
  )
}
