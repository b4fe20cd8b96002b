/-!
Three keystones of docs/keystones.md as formal proofs: rejection with one draft (section 3), the top-down walk (section
2), and admission across requests (section 13). They are put together: speculative sampling with a chain of drafts, and
with chains of several requests under one budget.

Probabilities are natural numbers over a common denominator, so that no library besides Lean's core is needed. Tokens are
`0, ..., n - 1`. Check with Lean 4: `lean proofs_check/lean/keystones.lean` prints nothing if every proof is complete.
-/

namespace Keystones

/-! ## Finite sums -/

/-- `f 0 + ... + f (n - 1)`. -/
def total : Nat → (Nat → Nat) → Nat
  | 0, _ => 0
  | n + 1, f => total n f + f n

theorem total_congr {n : Nat} {f g : Nat → Nat} (same : ∀ i, i < n → f i = g i) : total n f = total n g := by
  induction n with
  | zero => rfl
  | succ n ih =>
    have before := ih (fun i below => same i (Nat.lt_succ_of_lt below))
    have last := same n (Nat.lt_succ_self n)
    simp only [total, before, last]

theorem total_add (n : Nat) (f g : Nat → Nat) : total n (fun i => f i + g i) = total n f + total n g := by
  induction n with
  | zero => rfl
  | succ n ih => simp only [total, ih]; omega

theorem total_mul (n : Nat) (f : Nat → Nat) (c : Nat) : total n (fun i => f i * c) = total n f * c := by
  induction n with
  | zero => simp only [total, Nat.zero_mul]
  | succ n ih => simp only [total, ih, Nat.add_mul]

theorem zero_of_total_zero {n : Nat} {f : Nat → Nat} (none : total n f = 0) : ∀ i, i < n → f i = 0 := by
  induction n with
  | zero => intro i below; omega
  | succ n ih =>
    simp only [total] at none
    intro i below
    by_cases last : i = n
    · subst last; omega
    · exact ih (by omega) i (by omega)

/-- The indicator of `a = t`. -/
def hit (a t : Nat) : Nat := if a = t then 1 else 0

theorem hit_same (t : Nat) : hit t t = 1 := by unfold hit; exact if_pos rfl

theorem hit_other {a t : Nat} (differ : ¬ a = t) : hit a t = 0 := by unfold hit; exact if_neg differ

theorem total_hit_none (n : Nat) (f : Nat → Nat) (t : Nat) (above : n ≤ t) : total n (fun y => f y * hit y t) = 0 := by
  induction n with
  | zero => rfl
  | succ n ih =>
    have differ : ¬ n = t := by omega
    simp only [total, ih (by omega), hit_other differ, Nat.mul_zero, Nat.add_zero]

theorem total_hit (n : Nat) (f : Nat → Nat) (t : Nat) (below : t < n) : total n (fun y => f y * hit y t) = f t := by
  induction n with
  | zero => omega
  | succ n ih =>
    by_cases last : n = t
    · subst last
      simp only [total, total_hit_none n f n (Nat.le_refl n), hit_same, Nat.mul_one, Nat.zero_add]
    · simp only [total, ih (by omega), hit_other last, Nat.mul_zero, Nat.add_zero]

theorem total_coin (m a b d : Nat) : total m (fun u => if u < a then b else d) = min a m * b + (m - a) * d := by
  induction m with
  | zero => simp only [total, Nat.min_zero, Nat.zero_mul, Nat.zero_sub, Nat.add_zero]
  | succ m ih =>
    simp only [total, ih]
    by_cases heads : m < a
    · have least : min a m = m := by omega
      have next : min a (m + 1) = m + 1 := by omega
      have over : m - a = 0 := by omega
      have over' : m + 1 - a = 0 := by omega
      rw [if_pos heads, least, next, over, over', Nat.add_mul, Nat.one_mul, Nat.zero_mul]
      omega
    · have least : min a m = a := by omega
      have next : min a (m + 1) = a := by omega
      have over : m + 1 - a = m - a + 1 := by omega
      rw [if_neg heads, least, next, over, Nat.add_mul, Nat.one_mul]
      omega

/-! ## Section 3: rejection with one draft -/

/-- The weights of the correction: `p - q` where positive; any weights do if `p = q`, as then nothing is rejected. -/
def residual (p q : Nat → Nat) (n y : Nat) : Nat := if total n (fun x => p x - q x) = 0 then p y else p y - q y

/-- What is emitted: the drafted token `x` if the coin `u`, uniform below `q x`, is below `p x`, which has probability
`min 1 (p x / q x)`; else the correction `y`. -/
def emitted (p : Nat → Nat) (x u y : Nat) : Nat := if u < p x then x else y

/-- The number of ways to draw the coin and the correction such that `t` is emitted, given the draft `x`. -/
def ways (p q : Nat → Nat) (n x t : Nat) : Nat :=
  total (q x) fun u => total n fun y => residual p q n y * hit (emitted p x u y) t

theorem ways_eq (p q : Nat → Nat) (n x t : Nat) (token : t < n) :
    ways p q n x t = min (p x) (q x) * total n (residual p q n) * hit x t + (q x - p x) * residual p q n t := by
  have inner : ∀ u, u < q x → total n (fun y => residual p q n y * hit (emitted p x u y) t)
      = if u < p x then total n (residual p q n) * hit x t else residual p q n t := by
    intro u _
    by_cases kept : u < p x
    · simp only [emitted, if_pos kept]
      exact total_mul n (residual p q n) (hit x t)
    · simp only [emitted, if_neg kept]
      exact total_hit n (residual p q n) t token
  unfold ways
  rw [total_congr inner, total_coin, Nat.mul_assoc]

theorem total_split (p q : Nat → Nat) (n : Nat) :
    total n p = total n (fun x => min (p x) (q x)) + total n (fun x => p x - q x) := by
  rw [← total_add]
  exact total_congr (fun i _ => by omega)

/-- What is rejected weighs as much as the residual. -/
theorem rejected_eq (p q : Nat → Nat) (n : Nat) (units : total n p = total n q) :
    total n (fun x => q x - p x) = total n (fun x => p x - q x) := by
  have one := total_split p q n
  have other := total_split q p n
  have least : total n (fun x => min (q x) (p x)) = total n (fun x => min (p x) (q x)) :=
    total_congr (fun i _ => Nat.min_comm (q i) (p i))
  omega

/-- **One step of speculative sampling is lossless.** Of all ways to draw the draft, the coin and the correction, which
are `total n q * total n residual`, token `t` is emitted in `p t * total n residual`: its probability is
`p t / total n p`. -/
theorem rejection_is_lossless (p q : Nat → Nat) (n : Nat) (units : total n p = total n q) (t : Nat) (token : t < n) :
    total n (fun x => ways p q n x t) = total n (residual p q n) * p t := by
  have sum : total n (fun x => ways p q n x t)
      = min (p t) (q t) * total n (residual p q n) + total n (fun x => q x - p x) * residual p q n t := by
    rw [total_congr (fun x _ => ways_eq p q n x t token), total_add, total_mul,
      total_hit n (fun x => min (p x) (q x) * total n (residual p q n)) t token]
  rw [sum, rejected_eq p q n units]
  by_cases same : total n (fun x => p x - q x) = 0
  · have below := zero_of_total_zero same t token
    have above := zero_of_total_zero ((rejected_eq p q n units).trans same) t token
    have least : min (p t) (q t) = p t := by omega
    rw [same, least, Nat.zero_mul, Nat.add_zero, Nat.mul_comm]
  · have rest : residual p q n = fun y => p y - q y := by
      funext y
      unfold residual
      exact if_neg same
    have parts : min (p t) (q t) + (p t - q t) = p t := by omega
    rw [rest, Nat.mul_comm (min (p t) (q t)), ← Nat.mul_add, parts]

/-- There are ways at all: the residual has a positive mass. -/
theorem residual_positive (p q : Nat → Nat) (n : Nat) (some : 0 < total n p) : 0 < total n (residual p q n) := by
  by_cases same : total n (fun x => p x - q x) = 0
  · have rest : residual p q n = p := by
      funext y
      unfold residual
      exact if_pos same
    rw [rest]
    exact some
  · have rest : residual p q n = fun y => p y - q y := by
      funext y
      unfold residual
      exact if_neg same
    rw [rest]
    omega

/-- A correction is never the drafted token: where a draft can be rejected, its residual is 0. So the walk goes on below
the drafted token if and only if that token is emitted. -/
theorem correction_differs (p q : Nat → Nat) (n : Nat) (units : total n p = total n q) (x : Nat) (token : x < n)
    (rejected : p x < q x) : residual p q n x = 0 := by
  unfold residual
  by_cases same : total n (fun x => p x - q x) = 0
  · have above := zero_of_total_zero ((rejected_eq p q n units).trans same) x token
    have : q x - p x = 0 := above
    omega
  · rw [if_neg same]
    omega

/-! ## Section 2: the top-down walk

A context is the list of its tokens, the last one first. -/

/-- The weight of the texts of the target that begin with the given tokens after a context; `k` is the denominator that
the draws of a context bring in. -/
noncomputable def text (k : List Nat → Nat) (p : List Nat → Nat → Nat) : List Nat → List Nat → Nat
  | _, [] => 1
  | c, y :: z => k c * p c y * text k p (y :: c) z

/-- The weight of the walk's texts that begin with the given tokens. At a node of kind `s` (such as its number of
children) with context `c`, draw `d` of `m s c` and the emitted token `y` have the joint weight `solve s c d y`; `next`
gives the kind of the accepted child, or none if `y` is no child. After a token that is no child, and where no levels are
left, the target goes on. -/
noncomputable def walk {S : Type} (k : List Nat → Nat) (p : List Nat → Nat → Nat) (m : S → List Nat → Nat)
    (solve : S → List Nat → Nat → Nat → Nat) (next : S → List Nat → Nat → Nat → Option S) :
    Nat → S → List Nat → List Nat → Nat
  | 0, _, c, z => text k p c z
  | _ + 1, _, _, [] => 1
  | levels + 1, s, c, y :: z => total (m s c) fun d => solve s c d y *
      (next s c d y).elim (text k p (y :: c) z) fun child => walk k p m solve next levels child (y :: c) z

/-- **The top-down walk is lossless** if, averaged over the draws, the solver of every kind of node emits the tokens of
the target. -/
theorem top_down_is_lossless {S : Type} (n : Nat) (k : List Nat → Nat) (p : List Nat → Nat → Nat)
    (m : S → List Nat → Nat) (solve : S → List Nat → Nat → Nat → Nat)
    (next : S → List Nat → Nat → Nat → Option S)
    (lossless : ∀ s c y, y < n → total (m s c) (fun d => solve s c d y) = k c * p c y) :
    ∀ levels s c z, (∀ y, y ∈ z → y < n) → walk k p m solve next levels s c z = text k p c z := by
  intro levels
  induction levels with
  | zero => intro s c z _; simp only [walk]
  | succ levels ih =>
    intro s c z tokens
    cases z with
    | nil => simp only [walk, text]
    | cons y z =>
      have rest : ∀ a, a ∈ z → a < n := fun a inside => tokens a (List.mem_cons_of_mem y inside)
      have below : ∀ d, (next s c d y).elim (text k p (y :: c) z)
          (fun child => walk k p m solve next levels child (y :: c) z) = text k p (y :: c) z := by
        intro d
        cases next s c d y with
        | none => rfl
        | some child => exact ih child (y :: c) z rest
      have first : y < n := tokens y (List.mem_cons_self ..)
      simp only [walk, text, below]
      rw [total_mul, lossless s c y first]

/-! ## Both together: speculative sampling with a chain of drafts -/

/-- **Speculative sampling with a chain of any length is lossless**: a drafted token that is emitted is a child, below
which the next one is drafted. -/
theorem chain_is_lossless (n : Nat) (p q : List Nat → Nat → Nat) (units : ∀ c, total n (p c) = total n (q c))
    (length : Nat) (c z : List Nat) (tokens : ∀ y, y ∈ z → y < n) :
    walk (S := Unit) (fun c => total n (residual (p c) (q c) n)) p (fun _ _ => n)
        (fun _ c x y => ways (p c) (q c) n x y) (fun _ _ x y => if x = y then some () else none) length () c z
      = text (fun c => total n (residual (p c) (q c) n)) p c z :=
  top_down_is_lossless n _ p _ _ _ (fun _ c y token => rejection_is_lossless (p c) (q c) n (units c) y token)
    length () c z tokens

/-! ## Section 13: admission across requests

Requests are `0, 1, ...`. The slots of a step are the list of their requests, in the order in which tokens are drawn. -/

/-- `f`, but `a` at `r`. -/
def put {A : Type} (f : Nat → A) (r : Nat) (a : A) (i : Nat) : A := if i = r then a else f i

theorem put_same {A : Type} (f : Nat → A) (r : Nat) (a : A) : put f r a r = a := by unfold put; exact if_pos rfl

theorem put_other {A : Type} (f : Nat → A) {r i : Nat} (a : A) (differ : ¬ i = r) : put f r a i = f i := by
  unfold put; exact if_neg differ

/-- The weight of independent texts of the target, one for each request `r`, that begin with `z r` after `c r`. -/
noncomputable def texts (k : List Nat → Nat) (p : List Nat → Nat → Nat) :
    Nat → (Nat → List Nat) → (Nat → List Nat) → Nat
  | 0, _, _ => 1
  | r + 1, c, z => texts k p r c z * text k p (c r) (z r)

theorem texts_congr (k : List Nat → Nat) (p : List Nat → Nat → Nat) {c d y z : Nat → List Nat} (requests : Nat)
    (same : ∀ r, r < requests → c r = d r ∧ y r = z r) : texts k p requests c y = texts k p requests d z := by
  induction requests with
  | zero => rfl
  | succ r ih =>
    have last := same r (Nat.lt_succ_self r)
    simp only [texts, last.1, last.2, ih (fun i below => same i (Nat.lt_succ_of_lt below))]

theorem texts_put (k : List Nat → Nat) (p : List Nat → Nat → Nat) (requests r : Nat) (known : r < requests)
    (c z : Nat → List Nat) (y : Nat) (t : List Nat) (begins : z r = y :: t) :
    k (c r) * p (c r) y * texts k p requests (put c r (y :: c r)) (put z r t) = texts k p requests c z := by
  induction requests with
  | zero => omega
  | succ n ih =>
    by_cases last : r = n
    · subst last
      have others : texts k p r (put c r (y :: c r)) (put z r t) = texts k p r c z :=
        texts_congr k p r (fun i below => ⟨put_other c _ (by omega), put_other z _ (by omega)⟩)
      simp only [texts, others, put_same, begins, text]
      exact Nat.mul_left_comm _ _ _
    · have other : ¬ n = r := by omega
      simp only [texts, put_other _ _ other]
      rw [← Nat.mul_assoc, ih (by omega)]

/-- The number of slots of request `r`. -/
def slotsOf (r : Nat) : List Nat → Nat
  | [] => 0
  | s :: slots => hit s r + slotsOf r slots

/-- The weight of a step after which, for each request `r`, the text after `c r` begins with `z r`. The draws of earlier
slots are `h`, the last one first. A slot is admitted or not by `rule h`: by draws before its own. If its request is
live, draw `d` of `m` and the emitted token `y` have the joint weight `solve (rule h) c d y`, and `stays` says whether
the request is live after it. Else the draw has the weight `idle h d`, and nothing is emitted. After the last slot the
target goes on. A coin that decides an admission is a slot of a request that is not live. -/
noncomputable def batch {S : Type} (k : List Nat → Nat) (p : List Nat → Nat → Nat) (requests m : Nat)
    (rule : List Nat → S) (solve : S → List Nat → Nat → Nat → Nat) (stays : S → List Nat → Nat → Nat → Bool)
    (idle : List Nat → Nat → Nat) :
    List Nat → List Nat → (Nat → Bool) → (Nat → List Nat) → (Nat → List Nat) → Nat
  | [], _, _, c, z => texts k p requests c z
  | r :: slots, h, live, c, z =>
    if live r then
      match z r with
      | [] => 1
      | y :: t => total m fun d => solve (rule h) (c r) d y *
          batch k p requests m rule solve stays idle slots (d :: h) (put live r (stays (rule h) (c r) d y))
            (put c r (y :: c r)) (put z r t)
    else total m fun d => idle h d * batch k p requests m rule solve stays idle slots (d :: h) live c z

/-- **Admission by earlier draws is lossless**: the texts of all requests are independent texts of the target, if each
slot emits the target's tokens whether it is admitted or not. Texts have at least a token for each slot of their request,
and `j` is the denominator that each slot brings in. -/
theorem admission_is_lossless {S : Type} (n j : Nat) (k : List Nat → Nat) (p : List Nat → Nat → Nat) (requests m : Nat)
    (rule : List Nat → S) (solve : S → List Nat → Nat → Nat → Nat) (stays : S → List Nat → Nat → Nat → Bool)
    (idle : List Nat → Nat → Nat)
    (lossless : ∀ s c y, y < n → total m (fun d => solve s c d y) = j * (k c * p c y))
    (drawn : ∀ h, total m (idle h) = j) :
    ∀ slots h live c z, (∀ r, r ∈ slots → r < requests) → (∀ r y, y ∈ z r → y < n) →
      (∀ r, slotsOf r slots ≤ (z r).length) →
      batch k p requests m rule solve stays idle slots h live c z
        = j ^ slots.length * texts k p requests c z := by
  intro slots
  induction slots with
  | nil => intro h live c z _ _ _; simp only [batch, List.length_nil, Nat.pow_zero, Nat.one_mul]
  | cons r slots ih =>
    intro h live c z known tokens enough
    have rest : ∀ i, i ∈ slots → i < requests := fun i inside => known i (List.mem_cons_of_mem r inside)
    by_cases opened : live r = true
    · have some := enough r
      simp only [slotsOf, hit_same] at some
      cases begins : z r with
      | nil => rw [begins, List.length_nil] at some; omega
      | cons y t =>
        have token : y < n := tokens r y (by rw [begins]; exact List.mem_cons_self ..)
        have below : ∀ d, batch k p requests m rule solve stays idle slots (d :: h)
            (put live r (stays (rule h) (c r) d y)) (put c r (y :: c r)) (put z r t)
            = j ^ slots.length * texts k p requests (put c r (y :: c r)) (put z r t) := by
          intro d
          apply ih _ _ _ _ rest
          · intro i a inside
            by_cases same : i = r
            · subst same
              rw [put_same] at inside
              exact tokens i a (by rw [begins]; exact List.mem_cons_of_mem y inside)
            · rw [put_other z t same] at inside
              exact tokens i a inside
          · intro i
            by_cases same : i = r
            · subst same
              rw [put_same]
              rw [begins, List.length_cons] at some
              omega
            · have all := enough i
              simp only [slotsOf] at all
              rw [put_other z t same]
              omega
        simp only [batch, if_pos opened, begins, below]
        rw [total_mul, lossless (rule h) (c r) y token,
          ← texts_put k p requests r (known r (List.mem_cons_self ..)) c z y t begins, List.length_cons, Nat.pow_succ,
          Nat.mul_mul_mul_comm, Nat.mul_comm j]
    · have below : ∀ d, batch k p requests m rule solve stays idle slots (d :: h) live c z
          = j ^ slots.length * texts k p requests c z := fun d =>
        ih (d :: h) live c z rest tokens (fun i => by have all := enough i; simp only [slotsOf] at all; omega)
      simp only [batch, if_neg opened, below]
      rw [total_mul, drawn h, List.length_cons, Nat.pow_succ, ← Nat.mul_assoc, Nat.mul_comm j]

/-- **Chains of several requests under one budget are lossless**: an admitted slot is verified by rejection, at the first
one that is not admitted the target draws, and every slot has drawn its token from `q`, after whatever its request has
drafted (`after h`). -/
theorem budget_is_lossless (n j : Nat) (p q : List Nat → Nat → Nat) (target : ∀ c, total n (p c) = j)
    (draft : ∀ c, total n (q c) = j) (requests : Nat) (rule : List Nat → Bool) (after : List Nat → List Nat)
    (slots h : List Nat) (live : Nat → Bool) (c z : Nat → List Nat) (known : ∀ r, r ∈ slots → r < requests)
    (tokens : ∀ r y, y ∈ z r → y < n) (enough : ∀ r, slotsOf r slots ≤ (z r).length) :
    batch (fun c => total n (residual (p c) (q c) n)) p requests n rule
        (fun admitted c x y => if admitted then ways (p c) (q c) n x y * j
          else q c x * (total n (residual (p c) (q c) n) * p c y))
        (fun admitted _ x y => admitted && x == y) (fun h x => q (after h) x) slots h live c z
      = j ^ slots.length * texts (fun c => total n (residual (p c) (q c) n)) p requests c z := by
  apply admission_is_lossless n j _ p requests n rule _ _ _ _ (fun h => draft (after h)) slots h live c z known tokens
    enough
  intro admitted c y token
  cases admitted with
  | false => simp only [Bool.false_eq_true, if_false]; rw [total_mul, draft c]
  | true =>
    simp only [if_true]
    rw [total_mul, rejection_is_lossless (p c) (q c) n ((target c).trans (draft c).symm) y token, Nat.mul_comm]

/-- Two requests draft one of two tokens each, with weights 4 and 2 beside the target's 3 and 3. The one whose own drawn
token has the larger weight is admitted, the first one if they are equal. This is the weight of emitting `a` and `b`. -/
def byOwnToken (a b : Nat) : Nat :=
  total 2 fun x => total 2 fun y =>
    if 2 * (2 - y) ≤ 2 * (2 - x)
    then ways (fun _ => 3) (fun t => 2 * (2 - t)) 2 x a * (2 * (2 - y) * 3)
    else 2 * (2 - x) * 3 * ways (fun _ => 3) (fun t => 2 * (2 - t)) 2 y b

/-- **Admission by a slot's own token is lossy**: token 0 is emitted twice in 72 of 216 ways, which should be 54. -/
theorem own_token_is_lossy : total 2 (fun a => total 2 (byOwnToken a)) = 216 ∧ byOwnToken 0 0 = 72 := by decide

end Keystones
